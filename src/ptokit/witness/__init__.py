"""What the vendor's headers do, as recorded by compiling them for the host: pipes, flags, bytes read and written."""
