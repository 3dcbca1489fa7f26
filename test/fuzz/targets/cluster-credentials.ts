// Fuzz targets for credentials of clusters: tokens in files, and answers to TokenRequests.

import { HansaError } from '../../../src/core/errors/error.ts';
import { RenewalProblem, renewToken } from '../../../src/core/kube/credentials/renew-token.ts';
import { claimsOf, tokenIn } from '../../../src/core/kube/credentials/token-claims.ts';
import type { Target } from '../target.ts';

const subject = 'system:serviceaccount:kube-fed:hansa';

export const credentialTargets: readonly Target[] = [
  {
    name: 'cluster-token',
    grammar: 'jws',
    dictionary: [subject, 'aud', 'exp', 'iat', 'kubernetes.io', 'pod', 'uid', '../', '%2f', '\r\n'],
    maxBytes: 20_000,
    run: (input) => {
      const token = tokenIn(input.toString('utf8'));
      if (token === undefined) throw new HansaError('HANSA_BAD_REQUEST', 'no token');
      if (/[^\x21-\x7e]/.test(token)) throw new Error('a header cannot carry it');
      const { serviceAccount } = claimsOf(token) ?? {};
      const path = Object.values(serviceAccount ?? {}).join('/');
      if (/[^a-z0-9./-]|\.\.\/|\/\.\.|^\.\.?$/.test(path)) throw new Error(`it leads to ${path}`);
    },
  },
  {
    name: 'token-request',
    grammar: 'json',
    dictionary: ['status', 'token', 'expirationTimestamp', 'null', subject],
    maxBytes: 70_000,
    run: async (body) => {
      const claims = {
        issuer: undefined,
        subject,
        audiences: [],
        issuedAtMs: 0,
        expiresAtMs: 1,
        serviceAccount: { namespace: 'kube-fed', name: 'hansa' },
        boundTo: undefined,
      };
      const client = { request: async () => ({ status: 201, headers: {}, body }) };
      const { signal } = new AbortController();
      try {
        const renewed = await renewToken(client, claims, 600, signal);
        if (renewed.claims.subject !== subject) throw new Error('it is of another ServiceAccount');
      } catch (caught) {
        if (caught instanceof RenewalProblem) throw new HansaError('HANSA_UNAVAILABLE', 'refused');
        throw caught;
      }
    },
  },
];
