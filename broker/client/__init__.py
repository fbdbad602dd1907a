"""Client library: publish and subscribe, from Twisted or from asyncio."""
