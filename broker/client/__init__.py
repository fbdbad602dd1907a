"""Client library: publish and subscribe, from Twisted or from asyncio.

`broker.client.asyncio_face.connect` and `broker.client.twisted_face.connect` return the same
`Client`. Its awaitables belong to the loop for which it was made.
"""
