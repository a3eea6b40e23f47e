package secretfile_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drupdate/drupdate/internal/secretfile"
)

func TestASecretIsWhatItsFileHoldsNow(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	_, err := secretfile.Read(file)
	require.ErrorIs(t, err, os.ErrNotExist)
	for content, want := range map[string]string{"letmein": "letmein", " other\r\n": "other"} {
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		secret, err := secretfile.Read(file)
		require.NoError(t, err)
		require.Equal(t, want, secret)
	}
	require.NoError(t, os.WriteFile(file, []byte(" \n"), 0o600))
	_, err = secretfile.Read(file)
	require.EqualError(t, err, `"`+file+`": the file is empty`)
}
