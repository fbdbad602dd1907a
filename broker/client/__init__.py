"""The client library: publish and subscribe, from Twisted or from asyncio.

`broker.client.asyncio_face.connect` and `broker.client.twisted_face.connect` give the same
`Client`; everything it awaits belongs to the loop that it was made for.
"""
