// Package podexec asks a running pod short questions by exec.
//
// Kubernetes exec loses exit codes and cuts streams without an error. So each command runs inside a constant wrapper
// that frames its output with a nonce, its exit code and the number of bytes, and nothing but a matching pair of
// frames makes an answer complete. Questions may be repeated; work that must happen once belongs to package sitejob.
package podexec
