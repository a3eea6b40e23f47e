// Package dial makes the options of a Temporal client: from Temporal's own environment configuration, with keys and
// certificates that may change on disk, and with payloads that may be encrypted. What every client of ours must read alike in an
// answer stands here as well.
package dial
