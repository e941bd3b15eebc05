"""The grammar audit: is the mask exact, token for token, at every state that the walk reaches?"""
