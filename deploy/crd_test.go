package deploy

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// kubectl explain shows descriptions, and no defaults.
func TestEveryDefaultIsInTheDescriptionOfItsField(t *testing.T) {
	t.Parallel()
	var crd apiextensionsv1.CustomResourceDefinition
	decode(t, documents(t, "crd/drupdate.dev_drupalsites.yaml")[0], &crd)
	found := 0
	var walk func(path string, p apiextensionsv1.JSONSchemaProps)
	walk = func(path string, p apiextensionsv1.JSONSchemaProps) {
		if p.Default != nil && string(p.Default.Raw) != "{}" {
			found++
			value := string(p.Default.Raw)
			if p.Type == "string" {
				value = value[1 : len(value)-1]
			}
			require.Contains(t, p.Description, fmt.Sprintf("Default: %s.", value), path)
		}
		for name, child := range p.Properties {
			walk(path+"."+name, child)
		}
	}
	walk("", *crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
	require.Greater(t, found, 10)
}
