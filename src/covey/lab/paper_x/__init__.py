"""R. Chand and P. A. Felber, *A Scalable Protocol for Content-Based Routing in Overlay Networks* (RR-03-074, 2003)."""
