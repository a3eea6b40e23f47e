// Package node is the one node of the cluster: it registers with the API
// server through virtual-kubelet, and runs every container of every pod as a
// local process in a mini container.
package node
