"""REBECA's evaluation of routing algorithms (Mühl, Fiege, Gärtner and Buchmann, 2002): its figures and claims."""
