"""The audits: each takes a build and its references and returns a document; none of them writes files."""
