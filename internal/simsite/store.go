package simsite

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	mysqlDriver  = "mysql"
	pgDriver     = "pgsql"
	sqliteDriver = "sqlite"
)

// target says where the database of a container is.
type target struct {
	driver, name, file, host, port, user, password string
}

func (c *call) dir() string { return c.get("SIMSITE_DIR", "/run/simsite") }

func (c *call) target() target {
	t := target{
		driver: c.get("DB_DRIVER", mysqlDriver), name: c.get("DB_NAME", "drupal"), host: c.get("DB_HOST", "127.0.0.1"),
		user: c.get("DB_USER", "drupal"), password: c.env["DB_PASSWORD"],
	}
	switch t.driver {
	case sqliteDriver:
		t.file = c.get("DB_PATH", "sites/default/files/.ht.sqlite")
		t.name = t.file
	case pgDriver:
		t.port, t.file = c.get("DB_PORT", "5432"), filepath.Join(c.dir(), t.name+".json")
	default:
		t.driver = mysqlDriver
		t.port, t.file = c.get("DB_PORT", "3306"), filepath.Join(c.dir(), t.name+".json")
	}
	return t
}

// load connects and reads the database.
func (c *call) load() (State, *dbError) { return c.read(c.target()) }

func (c *call) read(t target) (State, *dbError) {
	if e := c.reach(t); e != nil {
		return State{}, e
	}
	s, e := readState(t)
	if e == nil && t.driver != sqliteDriver && s.Password != "" && s.Password != t.password {
		return State{}, &dbError{t, refused}
	}
	return s, e
}

// reach says whether there is a server behind the target.
func (c *call) reach(t target) *dbError {
	if t.driver != sqliteDriver && strings.HasSuffix(t.host, ".invalid") {
		return &dbError{t, unknownHost}
	}
	if _, err := os.Stat(strings.TrimSuffix(t.file, ".json") + ".down"); err == nil || c.rel.is(dbDown) {
		return &dbError{t, unreachable}
	}
	return nil
}

func readState(t target) (State, *dbError) {
	raw, err := os.ReadFile(t.file)
	switch {
	case errors.Is(err, fs.ErrNotExist) && t.driver == sqliteDriver:
		if err = os.WriteFile(t.file, nil, 0o666); err != nil { //nolint:gosec // pods of other users share the file
			return State{}, &dbError{t, unreachable}
		}
	case errors.Is(err, fs.ErrNotExist):
		return State{}, &dbError{t, unknownDatabase}
	case err != nil:
		return State{}, &dbError{t, unreachable}
	}
	var s State
	if len(raw) == 0 {
		return s, nil
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return State{}, &dbError{t, malformed}
	}
	return s, nil
}

// change reads the database, lets fn alter it and writes it back, all under a lock.
func (c *call) change(fn func(*State)) *dbError {
	t := c.target()
	if e := c.reach(t); e != nil {
		return e
	}
	unlock, err := lock(t.file)
	if err != nil {
		return &dbError{t, unreachable}
	}
	defer unlock()
	s, e := c.read(t)
	if e != nil {
		return e
	}
	before := s.encode()
	fn(&s)
	if after := s.encode(); !bytes.Equal(before, after) {
		if err := replace(t.file, after); err != nil {
			return &dbError{t, unreachable}
		}
	}
	return nil
}

func lock(file string) (func(), error) {
	f, err := os.OpenFile(file+".lock", os.O_CREATE|os.O_RDWR, 0o666) //nolint:gosec // shared by pods of other users
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil // closing drops the lock
}

// replace writes a file so that a reader sees the old or the new one, never a part.
func replace(file string, raw []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(file), ".simsite-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(raw)
	if e := tmp.Chmod(0o666); err == nil {
		err = e
	}
	if e := tmp.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}
