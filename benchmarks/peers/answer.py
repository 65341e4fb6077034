"""The small service: answers every connection with $WORD. Runs on the lab host."""

import os
import socket
import sys

server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    client, _ = server.accept()
    client.sendall(os.environ["WORD"].encode())
    client.close()
