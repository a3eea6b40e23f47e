package dial

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// environment is an envconfig.EnvLookup.
type environment map[string]string

func (e environment) Environ() []string {
	var all []string
	for name, value := range e {
		all = append(all, name+"="+value)
	}
	return all
}

func (e environment) LookupEnv(name string) (string, bool) {
	value, set := e[name]
	return value, set
}

// authority signs certificates of a test into its folder.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	a.key, a.cert = key, &x509.Certificate{
		Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.cert, _ = a.sign(a.cert, key)
	a.write("ca.crt", "CERTIFICATE", a.cert.Raw)
	return a
}

func (a *authority) sign(template *x509.Certificate, key *ecdsa.PrivateKey) (*x509.Certificate, []byte) {
	a.t.Helper()
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	require.NoError(a.t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(a.t, err)
	return cert, der
}

// issue writes NAME.crt and NAME.key for a common name; a second time it replaces them, as a rotation does.
func (a *authority) issue(name, commonName string) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	_, der := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: commonName}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, key)
	private, err := x509.MarshalECPrivateKey(key)
	require.NoError(a.t, err)
	a.write(name+".key", "EC PRIVATE KEY", private)
	a.write(name+".crt", "CERTIFICATE", der)
}

func (a *authority) write(file, kind string, der []byte) {
	a.t.Helper()
	require.NoError(a.t, os.WriteFile(a.path(file), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

func (a *authority) path(file string) string { return filepath.Join(a.dir, file) }

// frontend is a Temporal frontend behind TLS that wants a client certificate, and remembers who called.
type frontend struct {
	workflowservice.UnimplementedWorkflowServiceServer
	address string
	server  *grpc.Server

	mu           sync.Mutex
	certificates []string
	keys         []string
}

func newFrontend(t *testing.T, a *authority) *frontend {
	t.Helper()
	a.issue("server", "frontend")
	pair, err := tls.LoadX509KeyPair(a.path("server.crt"), a.path("server.key"))
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	f := &frontend{}
	f.server = grpc.NewServer(
		grpc.Creds(credentials.NewTLS(&tls.Config{
			Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
		})))
	workflowservice.RegisterWorkflowServiceServer(f.server, f)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f.address = listener.Addr().String()
	go func() { _ = f.server.Serve(listener) }() // It ends with the test.
	t.Cleanup(f.server.Stop)
	return f
}

func (f *frontend) GetSystemInfo(ctx context.Context, _ *workflowservice.GetSystemInfoRequest) (*workflowservice.GetSystemInfoResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	caller, _ := peer.FromContext(ctx)
	f.certificates = append(f.certificates, caller.AuthInfo.(credentials.TLSInfo).State.PeerCertificates[0].Subject.CommonName)
	headers, _ := metadata.FromIncomingContext(ctx)
	f.keys = append(f.keys, headers.Get("authorization")...)
	return &workflowservice.GetSystemInfoResponse{}, nil
}

// called is the certificate and the key of the newest call.
func (f *frontend) called() (certificate, key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.keys) > 0 {
		key = f.keys[len(f.keys)-1]
	}
	return f.certificates[len(f.certificates)-1], key
}

func (f *frontend) environment(a *authority) environment {
	return environment{
		"TEMPORAL_ADDRESS": f.address, "TEMPORAL_NAMESPACE": "shops", "TEMPORAL_CONFIG_FILE": a.path("absent.toml"),
		"TEMPORAL_TLS_SERVER_CA_CERT_PATH": a.path("ca.crt"),
		"TEMPORAL_TLS_CLIENT_CERT_PATH":    a.path("client.crt"), "TEMPORAL_TLS_CLIENT_KEY_PATH": a.path("client.key"),
	}
}

// call calls the frontend over a connection of its own.
func call(t *testing.T, options client.Options) error {
	t.Helper()
	c, err := client.NewLazyClient(options)
	require.NoError(t, err)
	defer c.Close()
	return ask(t, c)
}

func ask(t *testing.T, c client.Client) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := c.WorkflowService().GetSystemInfo(ctx, &workflowservice.GetSystemInfoRequest{})
	return err
}

func TestTheClientShowsItsCertificateAndItsKeyAndTakesNewOnesWithoutARestart(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	f := newFrontend(t, a)
	a.issue("client", "worker-1")
	key := a.path("api-key")
	require.NoError(t, os.WriteFile(key, []byte("first-key\n"), 0o600))
	options, err := Options(Settings{Log: zap.NewNop(), APIKeyFile: key, Env: f.environment(a)})
	require.NoError(t, err)
	require.Equal(t, "shops", options.Namespace)

	c, err := client.NewLazyClient(options)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, ask(t, c))
	certificate, shown := f.called()
	require.Equal(t, []string{"worker-1", "Bearer first-key"}, []string{certificate, shown})

	require.NoError(t, os.WriteFile(key, []byte("second-key\n"), 0o600))
	require.NoError(t, ask(t, c))
	_, shown = f.called()
	require.Equal(t, "Bearer second-key", shown, "the next call shows the new key, on the same connection")

	a.issue("client", "worker-2")
	require.NoError(t, call(t, options), "the same options: what a reconnect uses")
	certificate, _ = f.called()
	require.Equal(t, "worker-2", certificate)
}

func TestWithoutItsCertificateTheClientIsSentAway(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	f := newFrontend(t, a)
	env := f.environment(a)
	delete(env, "TEMPORAL_TLS_CLIENT_CERT_PATH")
	delete(env, "TEMPORAL_TLS_CLIENT_KEY_PATH")
	options, err := Options(Settings{Log: zap.NewNop(), Env: env})
	require.NoError(t, err)
	require.Error(t, call(t, options))
	require.Empty(t, f.certificates)
}

func TestAServerOfAnotherAuthorityIsNotTalkedTo(t *testing.T) {
	t.Parallel()
	a, other := newAuthority(t), newAuthority(t)
	f := newFrontend(t, a)
	a.issue("client", "worker")
	env := f.environment(a)
	env["TEMPORAL_TLS_SERVER_CA_CERT_PATH"] = other.path("ca.crt")
	options, err := Options(Settings{Log: zap.NewNop(), Env: env})
	require.NoError(t, err)
	require.Error(t, call(t, options))
	require.Empty(t, f.certificates)
}

func TestMistakesAreToldAtTheStartAndNoKeyIsInTheText(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	key, empty := write("key", "very-secret"), write("empty", "\n")
	for name, tc := range map[string]struct {
		settings Settings
		env      environment
		says     string
	}{
		"no key file":      {Settings{APIKeyFile: filepath.Join(dir, "absent")}, nil, "no such file"},
		"an empty file":    {Settings{APIKeyFile: empty}, nil, "the file is empty"},
		"two keys":         {Settings{APIKeyFile: key}, environment{"TEMPORAL_API_KEY": "very-secret"}, "one key is enough"},
		"a key in clear":   {Settings{APIKeyFile: key}, environment{"TEMPORAL_TLS": "false"}, "needs TLS"},
		"no certificate":   {Settings{}, environment{"TEMPORAL_TLS_CLIENT_CERT_PATH": key, "TEMPORAL_TLS_CLIENT_KEY_PATH": key}, "client cert/key"},
		"no payload's key": {Settings{CodecKeys: key}, nil, "32 bytes in base64"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.env == nil {
				tc.env = environment{}
			}
			tc.env["TEMPORAL_CONFIG_FILE"] = filepath.Join(dir, "absent.toml")
			tc.settings.Log, tc.settings.Env = zap.NewNop(), tc.env
			_, err := Options(tc.settings)
			require.ErrorContains(t, err, tc.says)
			require.NotContains(t, err.Error(), "very-secret")
		})
	}
}

func TestAnAPIKeyTurnsTLSOn(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte("k"), 0o600))
	options, err := Options(Settings{Log: zap.NewNop(), APIKeyFile: key, Env: environment{"TEMPORAL_CONFIG_FILE": key + ".toml"}})
	require.NoError(t, err)
	require.NotNil(t, options.ConnectionOptions.TLS)
}
