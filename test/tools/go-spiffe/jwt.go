package main

import (
	"context"
	"sort"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/jwtsvid"
	"github.com/spiffe/go-spiffe/v2/workloadapi"
)

func fetchTokens(ctx context.Context, args []string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
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
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
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
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	set, err := workloadapi.FetchJWTBundles(ctx)
	if err != nil {
		return err
	}
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
	return nil
}
