package dial

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.uber.org/zap"

	"github.com/drupdate/drupdate/internal/codec"
	"github.com/drupdate/drupdate/internal/logging"
	"github.com/drupdate/drupdate/internal/secretfile"
)

// Settings are what Temporal's environment configuration does not know. The zero value but for Log is fine.
type Settings struct {
	// Log gets the client's log entries.
	Log *zap.Logger
	// APIKeyFile holds the API key. It is read for every call, so that it may be replaced at any time.
	APIKeyFile string
	// CodecKeys is the file, or the folder of files, with the keys of payloads; empty leaves payloads as they are.
	CodecKeys string
	// Env reads the environment; nil means the process's own.
	Env envconfig.EnvLookup
}

// Options reads the configuration. It connects to nothing, but every file that is named is read once, so that a mistake
// is told at the start.
func Options(s Settings) (client.Options, error) {
	profile, err := envconfig.LoadClientConfigProfile(envconfig.LoadClientConfigProfileOptions{EnvLookup: s.Env})
	if err != nil {
		return client.Options{}, fmt.Errorf("read Temporal's settings: %w", err)
	}
	options, err := profile.ToClientOptions(envconfig.ToClientOptionsRequest{})
	if err != nil {
		return client.Options{}, fmt.Errorf("read Temporal's settings: %w", err)
	}
	options.Logger = logging.Temporal(s.Log)
	reloadCertificate(&options, profile.TLS)
	if err := s.apiKey(&options, profile.APIKey); err != nil {
		return client.Options{}, err
	}
	return options, s.encrypt(&options)
}

// reloadCertificate reads the client's certificate for every connection rather than once. The authorities that the
// server is checked against are read once: the TLS library has no place to ask for them again.
func reloadCertificate(options *client.Options, files *envconfig.ClientConfigTLS) {
	if files == nil || files.Disabled || files.ClientCertPath == "" {
		return
	}
	options.ConnectionOptions.TLS.Certificates = nil
	options.ConnectionOptions.TLS.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(files.ClientCertPath, files.ClientKeyPath)
		if err != nil {
			return nil, fmt.Errorf("read the certificate for Temporal: %w", err)
		}
		return &pair, nil
	}
}

// apiKey shows the key of a file. A key is never sent in the clear: with one, TLS is on unless it is turned off by name.
func (s Settings) apiKey(options *client.Options, given string) error {
	if s.APIKeyFile == "" {
		return nil
	}
	if given != "" {
		return errors.New("--temporal-api-key-file and TEMPORAL_API_KEY are both set: one key is enough")
	}
	if options.ConnectionOptions.TLSDisabled {
		return errors.New("--temporal-api-key-file needs TLS, which TEMPORAL_TLS turns off")
	}
	read := func(context.Context) (string, error) {
		key, err := secretfile.Read(s.APIKeyFile)
		if err != nil {
			return "", fmt.Errorf("read the API key for Temporal: %w", err)
		}
		return key, nil
	}
	if _, err := read(context.Background()); err != nil {
		return err
	}
	options.Credentials = client.NewAPIKeyDynamicCredentials(read)
	if options.ConnectionOptions.TLS == nil {
		options.ConnectionOptions.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return nil
}

func (s Settings) encrypt(options *client.Options) error {
	if s.CodecKeys == "" {
		return nil
	}
	keys, err := codec.Open(s.CodecKeys, s.Log)
	if err != nil {
		return err
	}
	options.DataConverter, options.FailureConverter = codec.New(keys).Converters()
	return nil
}

// IsOpen tells whether a workflow execution has not ended. An operator may hold one by Temporal's own pause.
func IsOpen(status enumspb.WorkflowExecutionStatus) bool {
	return status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING || status == enumspb.WORKFLOW_EXECUTION_STATUS_PAUSED
}
