package simsite

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// State is one database. Password, RestoreBroken and Functions belong to the server: neither drops, dumps nor
// restores touch the first two.
type State struct {
	Password      string            `json:"password,omitempty"`
	RestoreBroken bool              `json:"restoreBroken,omitempty"` // RestoreBroken makes every restore run out of space.
	Functions     bool              `json:"functions,omitempty"`     // Functions are those of PostgreSQL; sql:drop leaves them.
	Tables        []string          `json:"tables"`                  // Tables is sorted.
	InstallTask   string            `json:"installTask,omitempty"`
	Maintenance   bool              `json:"maintenance"`
	Schema        map[string]int    `json:"schema,omitempty"`
	Posts         []string          `json:"posts,omitempty"` // Posts are the study_upd post updates done, sorted.
	BuiltWith     string            `json:"builtWith,omitempty"`
	Users         []string          `json:"users,omitempty"`
	PageCacheWarm bool              `json:"pageCacheWarm,omitempty"`
	Rows          map[string]string `json:"rows,omitempty"` // Rows are the content.
}

const (
	keyValueTable = "key_value"
	contentTable  = "study_content"
	partialTable  = "study_upd_partial"
	usersTable    = "users"
	pageTable     = "cache_page"
	module        = "study_upd"
	corePosts     = 73
)

// core is the part of the state that lives in the table key_value.
type core struct {
	InstallTask string         `json:"installTask"`
	Maintenance bool           `json:"maintenance"`
	Schema      map[string]int `json:"schema"`
	Posts       []string       `json:"posts"`
	BuiltWith   string         `json:"builtWith"`
}

func (s *State) encode() []byte {
	raw, _ := json.MarshalIndent(s, "", "  ") //nolint:gosec // the password is a fixture; a State always marshals
	return append(raw, '\n')
}

func (s *State) has(table string) bool { return slices.Contains(s.Tables, table) }

// healthy means that Drush can bootstrap.
func (s *State) healthy() bool { return s.has(keyValueTable) && s.InstallTask != "" }

func (s *State) create(table string) {
	if !s.has(table) {
		s.Tables = append(s.Tables, table)
		slices.Sort(s.Tables)
	}
}

func (s *State) drop(table string) {
	s.Tables = slices.DeleteFunc(s.Tables, func(t string) bool { return t == table })
	switch table {
	case keyValueTable:
		s.InstallTask, s.Maintenance, s.Schema, s.Posts, s.BuiltWith = "", false, nil, nil, ""
	case contentTable:
		s.Rows = nil
	case usersTable:
		s.Users = nil
	case pageTable:
		s.PageCacheWarm = false
	}
}

func (s *State) dropAll() {
	for _, t := range slices.Clone(s.Tables) {
		s.drop(t)
	}
}

// rows are the pairs that a dump of the table holds; values are base64.
func (s *State) rows(table string) [][2]string {
	code := base64.StdEncoding.EncodeToString
	switch table {
	case keyValueTable:
		raw, _ := json.Marshal(core{s.InstallTask, s.Maintenance, s.Schema, s.Posts, s.BuiltWith})
		return [][2]string{{"drupal", code(raw)}}
	case contentTable:
		var rows [][2]string
		for _, k := range slices.Sorted(maps.Keys(s.Rows)) {
			rows = append(rows, [2]string{code([]byte(k)), code([]byte(s.Rows[k]))})
		}
		return rows
	case usersTable:
		var rows [][2]string
		for i, u := range s.Users {
			rows = append(rows, [2]string{strconv.Itoa(i + 1), code([]byte(u))})
		}
		return rows
	}
	return nil
}

// insert is the inverse of rows.
func (s *State) insert(table, key, value string) {
	raw, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		return
	}
	switch table {
	case keyValueTable:
		var c core
		if json.Unmarshal(raw, &c) == nil {
			s.InstallTask, s.Maintenance, s.Schema, s.Posts, s.BuiltWith = c.InstallTask, c.Maintenance, c.Schema, c.Posts, c.BuiltWith
		}
	case contentTable:
		if k, err := base64.StdEncoding.DecodeString(key); err == nil {
			s.put(string(k), string(raw))
		}
	case usersTable:
		s.Users = append(s.Users, string(raw))
	}
}

func (s *State) put(key, value string) {
	if s.Rows == nil {
		s.Rows = map[string]string{}
	}
	s.Rows[key] = value
	s.create(contentTable)
}

func (s *State) clone() State {
	var c State
	_ = json.Unmarshal(s.encode(), &c) // the inverse of encode
	return c
}

// install fills an empty database as site:install minimal does.
func (s *State) install(driver string, rel Release, level int) {
	s.dropAll()
	for _, t := range []string{
		"batch", "block_content", "cache_bootstrap", "cache_config", "cache_container", "cache_data", pageTable,
		"cachetags", "config", keyValueTable, "menu_tree", "node", "node_field_data", "path_alias", "queue", "router",
		"sequences", "sessions", contentTable, usersTable, "users_field_data", "watchdog",
	} {
		s.create(t)
	}
	s.Schema = map[string]int{
		"block": 8003, "dblog": 10101, "dynamic_page_cache": 8000, "field": 8500, "filter": 8000, "minimal": 8000,
		driver: 8000, "node": 8700, "page_cache": 8000, "path_alias": 8000, module: level, "system": 10201,
		"text": 8000, "update": 8001, "user": 10000,
	}
	s.InstallTask, s.BuiltWith, s.Users = "done", rel.Core, []string{"admin"}
	s.Functions = driver == pgDriver
}
