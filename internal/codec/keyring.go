package codec

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/drupdate/drupdate/internal/logging"
)

// keySize makes it AES-256.
const keySize = 32

// How old the keys in memory may be.
const (
	// freshFor is after how long an encryption looks for a newer key.
	freshFor = 30 * time.Second
	// unknownAfter is how long the files are not read again for a key that was just not there.
	unknownAfter = time.Second
)

// ErrUnknownKey means that a payload was encrypted with a key that is not among ours: it was removed too early, or it has
// not arrived here yet.
var ErrUnknownKey = errors.New("no such key")

// Keyring holds the keys of a file, or of all files in a folder. The file whose name sorts last encrypts; all decrypt.
// Files that come, go or change are noticed without a restart. It is safe for concurrent use.
type Keyring struct {
	path string
	log  *zap.Logger
	now  func() time.Time

	mu     sync.Mutex
	newest string
	keys   map[string]cipher.AEAD
	read   time.Time
}

// Open reads the keys. Each file holds 32 random bytes in base64, as "openssl rand -base64 32" prints them. It returns an
// error if there is no key or one cannot be read; later problems are logged, and the keys that were read are kept.
func Open(path string, log *zap.Logger) (*Keyring, error) {
	k := &Keyring{path: path, log: log, now: time.Now}
	if err := k.load(); err != nil {
		return nil, err
	}
	return k, nil
}

// current is the key that encrypts, and its id.
func (k *Keyring) current() (string, cipher.AEAD) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.now().Sub(k.read) > freshFor {
		k.reload()
	}
	return k.newest, k.keys[k.newest]
}

// byID is the key that a payload names.
func (k *Keyring) byID(id string) (cipher.AEAD, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, known := k.keys[id]; !known && k.now().Sub(k.read) > unknownAfter {
		k.reload()
	}
	key, known := k.keys[id]
	if !known {
		return nil, fmt.Errorf("key %q: %w in %q", id, ErrUnknownKey, k.path)
	}
	return key, nil
}

// reload keeps what there is if the files cannot be read: a half-made change must not stop every run.
func (k *Keyring) reload() {
	if err := k.load(); err != nil {
		k.read = k.now()
		k.log.Error("the keys of payloads are not read again", zap.String(logging.KeyError, err.Error()))
	}
}

func (k *Keyring) load() error {
	files, err := keyFiles(k.path)
	if err != nil {
		return err
	}
	newest, keys := "", map[string]cipher.AEAD{}
	for _, file := range files {
		id, key, err := readKey(file)
		if err != nil {
			return err
		}
		newest, keys[id] = id, key
	}
	k.newest, k.keys, k.read = newest, keys, k.now()
	return nil
}

// keyFiles lists the file, or the files of the folder, by name. Hidden ones are left out: a mounted Secret has them.
func keyFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	var files []string
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), ".") {
			files = append(files, filepath.Join(path, entry.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("read keys: %q: the folder has no key", path)
	}
	return files, nil
}

// readKey reads one file. The id is derived from the key, so that no file's name has to be kept, and two keys can never
// be mistaken for each other. Errors tell nothing of what the file holds.
func readKey(file string) (string, cipher.AEAD, error) {
	raw, err := os.ReadFile(file) //nolint:gosec // named by whoever starts the process
	if err != nil {
		return "", nil, fmt.Errorf("read key: %w", err)
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(raw)))
	if err != nil || len(key) != keySize {
		return "", nil, fmt.Errorf("read key: %q: it must hold %d bytes in base64, as \"openssl rand -base64 %d\" prints them", file, keySize, keySize)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return "", nil, fmt.Errorf("read key: %q: %w", file, err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return "", nil, fmt.Errorf("read key: %q: %w", file, err)
	}
	sum := sha256.Sum256(append([]byte("drupdate payload key\x00"), key...))
	return hex.EncodeToString(sum[:8]), aead, nil
}
