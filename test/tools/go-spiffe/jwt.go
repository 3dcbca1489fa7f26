package main

import (
	"context"
	"encoding/json"
	"os"
	"sort"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/jwtbundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/jwtsvid"
	"github.com/spiffe/go-spiffe/v2/workloadapi"
)

func fetchTokens(ctx context.Context, args []string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	params := jwtsvid.Params{Audience: args[0]}
	if len(args) > 1 {
		subject, err := spiffeid.FromString(args[1])
		if err != nil {
			return err
		}
		params.Subject = subject
	}
	found, err := workloadapi.FetchJWTSVIDs(ctx, params)
	if err != nil {
		return err
	}
	for _, svid := range found {
		show(map[string]any{
			"id":       svid.ID.String(),
			"hint":     svid.Hint,
			"audience": svid.Audience,
			"expiry":   svid.Expiry.UTC().Format(time.RFC3339),
			"token":    svid.Marshal(),
		})
	}
	return nil
}

func validateToken(ctx context.Context, audience, token string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	verdict := map[string]any{}
	if svid, err := workloadapi.ValidateJWTSVID(ctx, token, audience); err != nil {
		verdict["refusal"] = err.Error()
	} else {
		verdict["id"] = svid.ID.String()
		verdict["claims"] = svid.Claims
	}
	bundles, err := workloadapi.FetchJWTBundles(ctx)
	if err != nil {
		return err
	}
	if svid, err := jwtsvid.ParseAndValidate(token, bundles, []string{audience}); err != nil {
		verdict["ownRefusal"] = err.Error()
	} else {
		verdict["ownId"] = svid.ID.String()
	}
	show(verdict)
	return nil
}

func tokenBundles(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	set, err := workloadapi.FetchJWTBundles(ctx)
	if err != nil {
		return err
	}
	showTokenBundles(set)
	return nil
}

type tokenWatcher struct{}

func (tokenWatcher) OnJWTBundlesUpdate(set *jwtbundle.Set) { showTokenBundles(set) }

func (tokenWatcher) OnJWTBundlesWatchError(err error) { show(contextJSON{Error: err.Error()}) }

func showTokenBundles(set *jwtbundle.Set) {
	keys := map[string][]string{}
	for _, one := range set.Bundles() {
		ids := []string{}
		for id := range one.JWTAuthorities() {
			ids = append(ids, id)
		}
		sort.Strings(ids)
		keys[one.TrustDomain().Name()] = ids
	}
	show(map[string]any{"jwtBundles": keys})
}

type judgement struct {
	Audience string                     `json:"audience"`
	Bundles  map[string]json.RawMessage `json:"bundles"`
	Tokens   []string                   `json:"tokens"`
}

// judgeTokens prints an ID or a refusal for each token, by bundles from a file and no site.
func judgeTokens(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var asked judgement
	if err := json.Unmarshal(text, &asked); err != nil {
		return err
	}
	set := jwtbundle.NewSet()
	for name, jwks := range asked.Bundles {
		domain, err := spiffeid.TrustDomainFromString(name)
		if err != nil {
			return err
		}
		bundle, err := jwtbundle.Parse(domain, jwks)
		if err != nil {
			return err
		}
		set.Add(bundle)
	}
	for _, token := range asked.Tokens {
		if svid, err := jwtsvid.ParseAndValidate(token, set, []string{asked.Audience}); err != nil {
			show(map[string]string{"refusal": err.Error()})
		} else {
			show(map[string]string{"id": svid.ID.String()})
		}
	}
	return nil
}
