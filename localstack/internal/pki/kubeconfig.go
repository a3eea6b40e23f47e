package pki

import (
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig writes a kubeconfig, with everything embedded, for a subject that
// was issued before.
func (a *Authority) Kubeconfig(path, server string, s Subject) error {
	const name = "localstack"
	files := map[string][]byte{}
	for _, file := range []string{"ca.crt", s.File + ".crt", s.File + ".key"} {
		raw, err := os.ReadFile(a.Path(file))
		if err != nil {
			return fmt.Errorf("make kubeconfig: %q: %w", path, err)
		}
		files[file] = raw
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: files["ca.crt"]}
	config.AuthInfos[s.File] = &clientcmdapi.AuthInfo{
		ClientCertificateData: files[s.File+".crt"], ClientKeyData: files[s.File+".key"],
	}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: s.File}
	config.CurrentContext = name
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("make kubeconfig: %q: %w", path, err)
	}
	return nil
}
