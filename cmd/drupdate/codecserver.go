package main

import (
	"errors"
	"fmt"
	"net"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/drupdate/drupdate/internal/cli"
	"github.com/drupdate/drupdate/internal/codec"
	"github.com/drupdate/drupdate/internal/logging"
	"github.com/drupdate/drupdate/internal/secretfile"
)

func codecServerCommand(env lookup) *cobra.Command {
	var server codec.ServerConfig
	var keys, tokenFile string
	c := &cobra.Command{
		Use:   "codec-server",
		Short: "Decrypt payloads for the Temporal Web UI and the temporal command",
		Long: "Decrypt payloads for the Temporal Web UI and the temporal command, on this machine:\n\n" +
			"  drupdate codec-server --codec-keys keys/ --ui-origin https://temporal.example.org\n\n" +
			"In the Web UI set http://127.0.0.1:8089 as codec endpoint; with the command, --codec-endpoint.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := fromEnvironment(cmd, env); err != nil {
				return cli.Usage(err)
			}
			return serveCodec(cmd, server, keys, tokenFile)
		},
	}
	f := c.Flags()
	f.StringVar(&keys, "codec-keys", "", "file, or folder of files, with the keys")
	f.StringVar(&server.Addr, "addr", "127.0.0.1:8089", "address to listen on; one that others can reach needs --token-file")
	f.StringSliceVar(&server.Origins, "ui-origin", nil, "origin of the Web UI whose pages may ask, as scheme://host:port")
	f.StringVar(&tokenFile, "token-file", "", "file with the bearer token that callers have to show; none means that no token is asked for")
	return c
}

func serveCodec(cmd *cobra.Command, server codec.ServerConfig, keyPath, tokenFile string) error {
	var problems []error
	if keyPath == "" {
		problems = append(problems, errors.New("--codec-keys must name the keys"))
	}
	if tokenFile != "" {
		server.Token = func() (string, error) { return secretfile.Read(tokenFile) }
		if _, err := server.Token(); err != nil {
			problems = append(problems, fmt.Errorf("--token-file: %w", err))
		}
	}
	if err := errors.Join(append(problems, server.Validate())...); err != nil {
		return cli.Usage(err)
	}
	log, err := logging.New(cmd.ErrOrStderr(), "info", logging.Console)
	if err != nil {
		return err
	}
	keys, err := codec.Open(keyPath, log)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", server.Addr)
	if err != nil {
		return fmt.Errorf("serve codec: %w", err)
	}
	log.Info("decrypting payloads", zap.Stringer("address", listener.Addr()), zap.Strings("origins", server.Origins))
	return serveHTTP(cmd.Context(), "codec", listener, server.Handler(codec.New(keys)))
}
