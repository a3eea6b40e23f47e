package simsite

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

const stamp = "2006-01-02 15:04:05"

// mysqlDump is the text of mariadb-dump.
func mysqlDump(t target, s State) string {
	var b strings.Builder
	_, _ = fmt.Fprintf(&b, "-- MariaDB dump 10.19  Distrib 10.11.14-MariaDB, for debian-linux-gnu (x86_64)\n--\n"+
		"-- Host: %s    Database: %s\n-- %s\n/*!40101 SET NAMES utf8mb4 */;\n\n", t.host, t.name, strings.Repeat("-", 54))
	for _, name := range dumpOrder(s) {
		_, _ = fmt.Fprintf(&b, "DROP TABLE IF EXISTS `%s`;\nCREATE TABLE `%s` (\n  `name` varchar(255),\n  `value` longblob\n);\n", name, name)
		for _, row := range s.rows(name) {
			_, _ = fmt.Fprintf(&b, "INSERT INTO `%s` VALUES ('%s','%s');\n", name, row[0], row[1])
		}
	}
	b.WriteString("-- Dump completed on " + time.Now().Format(stamp) + "\n")
	return b.String()
}

// dumpOrder puts the table that holds the most at the end, so that a truncated dump lacks it.
func dumpOrder(s State) []string {
	order := slices.DeleteFunc(slices.Clone(s.Tables), func(t string) bool { return t == keyValueTable })
	if s.has(keyValueTable) {
		order = append(order, keyValueTable)
	}
	return order
}

// pgOptions are the switches of pg_dump and pg_restore that change the text.
type pgOptions struct {
	clean, ifExists bool
	extension       bool // extension is in every dump that is not limited to a schema
}

func pgText(s State, o pgOptions) string {
	var b strings.Builder
	b.WriteString("--\n-- PostgreSQL database dump\n--\n\nSET statement_timeout = 0;\nSELECT pg_catalog.set_config('search_path', '', false);\n\n")
	exists := ""
	if o.ifExists {
		exists = "IF EXISTS "
	}
	if o.clean {
		for _, name := range slices.Backward(dumpOrder(s)) {
			b.WriteString("DROP TABLE " + exists + "public." + name + ";\n")
		}
		if s.Functions {
			b.WriteString("DROP FUNCTION " + exists + "public.rand();\n")
		}
		if o.extension {
			b.WriteString("DROP EXTENSION " + exists + "pg_trgm;\n")
		}
	}
	if o.extension {
		b.WriteString("CREATE EXTENSION IF NOT EXISTS pg_trgm WITH SCHEMA public;\n")
	}
	if s.Functions {
		b.WriteString("CREATE FUNCTION public.rand() RETURNS double precision LANGUAGE sql AS $$SELECT random();$$;\n")
	}
	for _, name := range dumpOrder(s) {
		b.WriteString("CREATE TABLE public." + name + " (\n    name character varying(255),\n    value bytea\n);\n")
		for _, row := range s.rows(name) {
			_, _ = fmt.Fprintf(&b, "INSERT INTO public.%s VALUES ('%s','%s');\n", name, row[0], row[1])
		}
	}
	b.WriteString("--\n-- PostgreSQL database dump complete\n--\n\n")
	return b.String()
}

// sqliteDump is the text of .dump: it needs a collation that only Drupal has.
func sqliteDump(s State) string {
	var b strings.Builder
	b.WriteString("PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n")
	for _, name := range dumpOrder(s) {
		collation := ""
		if strings.HasPrefix(name, usersTable) || name == keyValueTable {
			collation = " COLLATE NOCASE_UTF8"
		}
		b.WriteString("CREATE TABLE " + name + " (\nname VARCHAR(255)" + collation + ",\nvalue BLOB\n);\n")
		for _, row := range s.rows(name) {
			_, _ = fmt.Fprintf(&b, "INSERT INTO %s VALUES('%s','%s');\n", name, row[0], row[1])
		}
	}
	b.WriteString("COMMIT;\n")
	return b.String()
}

const magic = "PGDMP\x01\x0e\x00"

var (
	errNoArchive  = errors.New("input file does not appear to be a valid archive")
	errTooShort   = errors.New("could not read from input file: end of file")
	errTextFormat = errors.New("input file appears to be a text format dump. Please use psql.") //nolint:revive,staticcheck // the words of pg_restore
)

type archive struct {
	Extension bool  `json:"extension"`
	State     State `json:"state"`
}

// encodeArchive makes the custom format: magic, length, body.
func encodeArchive(s State, o pgOptions) []byte {
	s.Password = ""
	// A State always marshals.
	body, _ := json.Marshal(archive{o.extension, s})
	head := binary.BigEndian.AppendUint32([]byte(magic), uint32(len(body))) //nolint:gosec // a few kilobytes
	return append(head, body...)
}

func decodeArchive(raw []byte) (archive, error) {
	var a archive
	switch {
	case bytes.HasPrefix(raw, []byte("--")):
		return a, errTextFormat
	case !bytes.HasPrefix(raw, []byte("PGDMP")):
		return a, errNoArchive
	case len(raw) < len(magic)+4:
		return a, errTooShort
	}
	body := raw[len(magic)+4:]
	if len(body) != int(binary.BigEndian.Uint32(raw[len(magic):])) || json.Unmarshal(body, &a) != nil {
		return a, errTooShort
	}
	return a, nil
}
