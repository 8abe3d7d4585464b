"""What makes drivers start sooner: spare drivers, and the job that trains them."""
