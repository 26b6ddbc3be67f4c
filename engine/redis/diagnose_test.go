package redis_test

import (
	"strings"
	"testing"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/redis"
	"github.com/millrace-dev/millrace/internal/redistest"
)

// gradesOf is what was found, by name.
func gradesOf(t *testing.T, found []millrace.Finding, err error) map[string]millrace.Grade {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	grades := map[string]millrace.Grade{}
	for _, f := range found {
		grades[f.Name] = f.Grade
		if f.Detail == "" || (f.Next == "") != (f.Grade == millrace.GradeOK) {
			t.Errorf("%+v does not say what is so and what to do", f)
		}
	}
	return grades
}

func TestADiagnosisTellsOfTheServer(t *testing.T) {
	s := redistest.Single(t)
	look := func(e *redis.Engine) map[string]millrace.Grade {
		found, err := e.Diagnose(t.Context())
		return gradesOf(t, found, err)
	}
	e := opened(t, s.URL(), millrace.EngineOptions{})
	for _, c := range []struct {
		set   [][2]string
		check string
		grade millrace.Grade
	}{
		{[][2]string{{"maxmemory", "0"}}, "memory", millrace.GradeWarn},
		{[][2]string{{"maxmemory", "1gb"}}, "memory", millrace.GradeOK},
		{[][2]string{{"maxmemory-policy", "volatile-ttl"}}, "eviction", millrace.GradeFail},
		{[][2]string{{"maxmemory-policy", "noeviction"}}, "eviction", millrace.GradeOK},
		{[][2]string{{"appendonly", "no"}}, "durability", millrace.GradeWarn},
		{[][2]string{{"appendonly", "yes"}, {"appendfsync", "everysec"}}, "durability", millrace.GradeOK},
	} {
		for _, kv := range c.set {
			s.Do("CONFIG", "SET", kv[0], kv[1])
		}
		if got := look(e)[c.check]; got != c.grade {
			t.Errorf("%v: %s is %s, want %s", c.set, c.check, got, c.grade)
		}
	}
	got := look(e)
	for _, name := range []string{"store", "version", "clock", "replicas"} {
		if got[name] != millrace.GradeOK {
			t.Errorf("%s is %q in %v", name, got[name], got)
		}
	}
}

func TestADiagnosisWithoutPermissionsSaysWhatItCannotSee(t *testing.T) {
	s := redistest.Single(t)
	s.Do("ACL", "SETUSER", "app", "on", ">pw", "~millrace:*", "&millrace:*", "+@all", "-config", "-info")
	e := opened(t, "redis://app:pw@"+s.Addr(), millrace.EngineOptions{})
	found, err := e.Diagnose(t.Context())
	got := gradesOf(t, found, err)
	if got["durability"] != millrace.GradeWarn || got["server"] != millrace.GradeWarn || got["store"] != millrace.GradeOK {
		t.Errorf("got %v", got)
	}
}

func TestADiagnosisOfAClusterTellsOfEachMaster(t *testing.T) {
	c := redistest.Cluster(t, 3)
	e := opened(t, c.URL(), millrace.EngineOptions{})
	found, err := e.Diagnose(t.Context())
	versions := 0
	for name, grade := range gradesOf(t, found, err) {
		if strings.HasPrefix(name, "version 127.0.0.1:") && grade == millrace.GradeOK {
			versions++
		}
	}
	if versions != 3 {
		t.Errorf("%d versions in %v", versions, found)
	}
}

func TestServersAreSurveyedWithoutAStore(t *testing.T) {
	s := redistest.Single(t)
	found, err := redis.Survey(t.Context(), s.URL(), millrace.EngineOptions{WaitReplicas: 1, Logger: quiet})
	got := gradesOf(t, found, err)
	if got["version"] != millrace.GradeOK || got["replicas"] != millrace.GradeFail {
		t.Errorf("got %v", got)
	}
	if keys := s.Do("DBSIZE"); keys != "0" {
		t.Errorf("the survey left %s keys", keys)
	}
}
