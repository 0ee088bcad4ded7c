"""What `make check` runs beside other programs."""
