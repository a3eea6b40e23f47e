package simsite

import (
	"bytes"
	"encoding/json"
	"strings"
)

// quote is PHP's JSON string with slashes left alone.
func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")
}

// statusFields are the pairs of `drush status` as raw JSON, in Drush's order.
func (c *call) statusFields(o flags) [][2]string {
	t := c.target()
	s, e := c.load()
	healthy := e == nil && s.healthy()
	list := [][2]string{{"drupal-version", quote(c.rel.Core)}, {"uri", quote(c.uri(o))}, {"db-driver", quote(t.driver)}}
	add := func(pairs ...string) {
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, [2]string{pairs[i], quote(pairs[i+1])})
		}
	}
	if t.driver != sqliteDriver {
		add("db-hostname", t.host, "db-port", t.port, "db-username", t.user, "db-password", t.password)
	}
	add("db-name", t.name)
	if healthy {
		add("db-status", "Connected", "bootstrap", "Successful", "theme", "stark", "admin-theme", "seven")
	}
	add("php-bin", "/usr/bin/php8.2")
	list = append(list, [2]string{"php-conf", "[\n    \"/etc/php/8.2/cli/php.ini\"\n]"})
	add("php-os", "Linux", "php-version", "8.2.36", "drush-script", "/app/vendor/bin/drush.php", "drush-version", drushVersion, "drush-temp", "/tmp")
	list = append(list, [2]string{"drush-conf", "[\n    \"/app/vendor/drush/drush/drush.yml\"\n]"},
		[2]string{"drush-alias-files", "[]"}, [2]string{"alias-searchpaths", "[]"})
	if healthy {
		add("install-profile", "minimal")
	}
	add("root", "/app/web", "drupal-settings-file", "sites/default/settings.php", "site", "sites/default",
		"themes", "sites/all/themes", "modules", "sites/all/modules")
	if healthy {
		add("files", "sites/default/files", "temp", "/tmp")
	}
	add("config-sync", "../config/sync")
	return append(list, [2]string{"%paths", paths(healthy)})
}

func paths(healthy bool) string {
	list := [][2]string{
		{"%root", quote("/app/web")},
		{"%site", quote("sites/default")},
		{"%modules", quote("sites/all/modules")},
		{"%themes", quote("sites/all/themes")},
		{"%config-sync", quote("../config/sync")},
	}
	if healthy {
		list = append(list, [2]string{"%files", quote("sites/default/files")}, [2]string{"%temp", quote("/tmp")})
	}
	return object(list)
}

func (c *call) uri(o flags) string {
	if o["uri"] != "" {
		return o["uri"]
	}
	return c.get("DRUSH_OPTIONS_URI", "http://default")
}

func (c *call) drushStatus(_ []string, o flags) int {
	fields := c.statusFields(o)
	if want := o["field"]; want != "" {
		value := ""
		for _, f := range fields {
			if f[0] == want {
				_ = json.Unmarshal([]byte(f[1]), &value) // a list prints as nothing
			}
		}
		c.print("%s\n", value)
		return 0
	}
	if want := o["fields"]; want != "" {
		fields = pick(fields, strings.Split(want, ","))
	}
	if o["format"] == "json" {
		c.json(object(fields))
		return 0
	}
	for _, f := range fields {
		if f[0] != "db-password" && strings.HasPrefix(f[1], `"`) {
			c.print(" %-20s : %s \n", f[0], strings.Trim(f[1], `"`))
		}
	}
	return 0
}

func pick(fields [][2]string, want []string) [][2]string {
	var list [][2]string
	for _, w := range want {
		for _, f := range fields {
			if f[0] == strings.TrimSpace(w) {
				list = append(list, f)
			}
		}
	}
	return list
}
