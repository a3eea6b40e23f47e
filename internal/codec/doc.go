// Package codec encrypts the payloads that Temporal stores, so that a history holds nothing readable about a site but
// what Temporal must know: ids, types, search attributes.
package codec
