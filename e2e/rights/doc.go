// Package rights compares what RBAC grants to service accounts with what they ask of the API server, as its audit log
// tells it. A right that nobody uses is one too many, and a refused request is a right too few.
package rights
