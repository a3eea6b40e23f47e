// Package pki makes the throw-away certificates and kubeconfigs of a local
// cluster. Nothing here is meant to protect a cluster that matters.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// lifetime of every certificate: longer than any state folder is kept.
const lifetime = 10 * 365 * 24 * time.Hour

// Subject is one certificate to make: the user name and the groups that
// Kubernetes reads from it, and the names a server proves with it.
type Subject struct {
	File   string // the base name of its .crt and .key.
	User   string
	Groups []string
	Hosts  []string // DNS names and IP addresses.
}

// Authority signs certificates into one folder.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Open loads the authority of a folder, or makes a new one if the folder has
// none. Calling it again is safe.
func Open(dir string) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open authority: %w", err)
	}
	a := &Authority{dir: dir}
	switch cert, key, err := load(dir, "ca"); {
	case err == nil:
		a.cert, a.key = cert, key
		return a, nil
	case !errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("open authority: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make authority: %w", err)
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "localstack"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	a.cert, a.key = template, key
	if err := a.sign("ca", template, key); err != nil {
		return nil, err
	}
	a.cert, a.key, err = load(dir, "ca")
	return a, err
}

// Issue makes a certificate that serves as client and as server. One that
// exists already is kept.
func (a *Authority) Issue(s Subject) error {
	if _, err := os.Stat(a.Path(s.File + ".crt")); err == nil {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("issue certificate: %q: %w", s.File, err)
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: s.User, Organization: s.Groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	for _, host := range s.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		template.DNSNames = append(template.DNSNames, host)
	}
	return a.sign(s.File, template, key)
}

// IssueKey makes a key pair without a certificate, as NAME.key and NAME.pub:
// the one that signs service account tokens. One that exists is kept.
func (a *Authority) IssueKey(name string) error {
	if _, err := os.Stat(a.Path(name + ".pub")); err == nil {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make key: %q: %w", name, err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("make key: %q: %w", name, err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return fmt.Errorf("make key: %q: %w", name, err)
	}
	return errors.Join(
		writePEM(a.Path(name+".key"), "EC PRIVATE KEY", private),
		writePEM(a.Path(name+".pub"), "PUBLIC KEY", public),
	)
}

// Path is the place of a file of the authority, such as "ca.crt".
func (a *Authority) Path(file string) string { return filepath.Join(a.dir, file) }

func (a *Authority) sign(file string, template *x509.Certificate, key *ecdsa.PrivateKey) error {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return fmt.Errorf("sign certificate: %q: %w", file, err)
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = template.NotBefore.Add(lifetime)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return fmt.Errorf("sign certificate: %q: %w", file, err)
	}
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("sign certificate: %q: %w", file, err)
	}
	if err := writePEM(a.Path(file+".key"), "EC PRIVATE KEY", raw); err != nil {
		return err
	}
	return writePEM(a.Path(file+".crt"), "CERTIFICATE", der)
}

func load(dir, file string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	certDER, err := readPEM(filepath.Join(dir, file+".crt"))
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := readPEM(filepath.Join(dir, file+".key"))
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(certDER)
	if err != nil {
		return nil, nil, fmt.Errorf("read certificate: %q: %w", file, err)
	}
	key, err := x509.ParseECPrivateKey(keyDER)
	if err != nil {
		return nil, nil, fmt.Errorf("read key: %q: %w", file, err)
	}
	return cert, key, nil
}

func writePEM(path, kind string, der []byte) error {
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		return fmt.Errorf("write key material: %w", err)
	}
	return nil
}

func readPEM(path string) ([]byte, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, fmt.Errorf("read key material: %q: not PEM", path)
	}
	return block.Bytes, nil
}
