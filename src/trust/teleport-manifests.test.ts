import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { parse } from 'yaml';
import type { JsonObject } from '../api/object.ts';
import { convertTeleport } from './teleport-manifests.ts';

class Refused extends Error {}

const convert = (text: string): JsonObject | undefined =>
  convertTeleport(parse(text) as JsonObject, (why) => {
    throw new Refused(why);
  })?.[0]?.object;

const federation = (source: string): string => `kind: spiffe_federation
version: v1
metadata:
  # name must match the name of the trust domain you are federating with.
  name: example.com
spec:
  bundle_source:
    ${source}
`;

const token = (extra = ''): string => `kind: token
version: v2
metadata:
  name: spiffe-join-token
spec:
  roles: [Bot]
  bot_name: my-bot
  join_method: spiffe
  spiffe:
    allow:
      - spiffe_id: spiffe://example.com/foo/*
      - spiffe_id: spiffe://second.example.com/bar/foo/fizz
${extra}`;

suite('a spiffe_federation', () => {
  test('by https_web becomes one by httpsWeb', () => {
    const url = 'https://example.com/webapi/spiffe/bundle.json';
    assert.deepEqual(convert(federation(`https_web: {bundle_endpoint_url: ${url}}`)), {
      apiVersion: 'hansa.dev/v1alpha1',
      kind: 'SPIFFEFederation',
      metadata: { name: 'example.com' },
      spec: { bundleSource: { httpsWeb: { bundleEndpointURL: url } } },
    });
  });

  test('with a static bundle becomes a static one', () => {
    assert.deepEqual(convert(federation(`static: {bundle: '{"keys":[]}'}`))?.['spec'], {
      bundleSource: { static: { bundle: '{"keys":[]}' } },
    });
  });

  test('by https_spiffe becomes one by httpsSpiffe where it says who must answer', () => {
    const fields =
      'bundle_endpoint_url: https://e.example/, bundle_bootstrap: b, endpoint_spiffe_id: spiffe://e.example/s';
    assert.deepEqual(convert(federation(`https_spiffe: {${fields}}`))?.['spec'], {
      bundleSource: {
        httpsSpiffe: {
          bundleEndpointURL: 'https://e.example/',
          endpointSpiffeID: 'spiffe://e.example/s',
          bundleBootstrap: 'b',
        },
      },
    });
  });
});

suite('a token', () => {
  test('of the requirement becomes a JoinToken', () => {
    assert.deepEqual(convert(token()), {
      apiVersion: 'hansa.dev/v1alpha1',
      kind: 'JoinToken',
      metadata: { name: 'spiffe-join-token' },
      spec: {
        method: 'spiffe',
        roles: ['bot'],
        botName: 'my-bot',
        spiffe: {
          allow: [
            { spiffeID: 'spiffe://example.com/foo/*' },
            { spiffeID: 'spiffe://second.example.com/bar/foo/fizz' },
          ],
        },
      },
    });
  });

  test('keeps its labels and its end, and a node is an agent', () => {
    const text = token()
      .replace(
        'name: spiffe-join-token',
        'name: t\n  labels: {a: b}\n  expires: 2027-01-01T00:00:00Z',
      )
      .replace('[Bot]', '[Node]')
      .replace('  bot_name: my-bot\n', '');
    const converted = convert(text);
    assert.deepEqual(converted?.['metadata'], { name: 't', labels: { a: 'b' } });
    const spec = converted?.['spec'] as JsonObject;
    assert.deepEqual(spec['roles'], ['agent']);
    assert.equal(spec['expiresAt'], '2027-01-01T00:00:00Z');
    const endless = convert(
      token().replace('name: s', 'expires: "0001-01-01T00:00:00Z"\n  name: s'),
    );
    assert.doesNotMatch(JSON.stringify(endless), /expiresAt/);
  });
});

test('what `tctl get` prints can be applied as it is', () => {
  const printed = (text: string): string =>
    `${text.replace(/ {2}name: (.+)/, '  name: $1\n  id: 7\n  revision: 43e96231')}status: {current_bundle: b}\n`;
  for (const text of [federation('static: {bundle: b}'), token()]) {
    assert.deepEqual(convert(printed(text)), convert(text));
  }
});

suite('what is refused, by its name', () => {
  const refused: readonly [text: string, why: RegExp][] = [
    [
      federation('https_spiffe: {bundle_endpoint_url: u, bundle_bootstrap: b}'),
      /endpoint_spiffe_id is missing.*spiffe:\/\/TRUST-DOMAIN\/spire\/server/,
    ],
    [
      federation('https_spiffe: {bundle_endpoint_url: u, endpoint_spiffe_id: s}'),
      /https_spiffe\.bundle_bootstrap is missing/,
    ],
    [federation('https_web: {}'), /spec\.bundle_source\.https_web\.bundle_endpoint_url is missing/],
    [federation('https_web: {bundle_endpoint_url: 7}'), /bundle_endpoint_url must be a text/],
    [
      federation('https_web: {bundle_endpoint_url: u, insecure: true}'),
      /spec\.bundle_source\.https_web\.insecure has no counterpart/,
    ],
    [federation('{}'), /exactly one of static, https_web and https_spiffe/],
    [federation('{static: {bundle: b}, https_web: {bundle_endpoint_url: u}}'), /exactly one/],
    [federation('{static: {bundle: b}, ftp: {}}'), /spec\.bundle_source\.ftp has no counterpart/],
    [`${federation('static: {bundle: b}')}options: {}\n`, /options has no counterpart/],
    [federation('static: {bundle: b}').replace('v1', 'v2'), /only in version v1/],
    [federation('static: {bundle: b}').replace('version: v1\n', ''), /version is missing/],
    [
      federation('static: {bundle: b}').replace(
        'kind: spiffe_federation',
        'kind: spiffe_federation\nsub_kind: x',
      ),
      /sub_kind must be empty/,
    ],
    [
      federation('static: {bundle: b}').replace('name: example.com', 'description: d'),
      /metadata\.name is missing/,
    ],
    [
      federation('static: {bundle: b}').replace(
        'name: example.com',
        'name: example.com\n  description: d',
      ),
      /metadata\.description has no counterpart/,
    ],
    [token().replace('join_method: spiffe', 'join_method: iam'), /join_method is "iam"/],
    [token().replace('[Bot]', '[Bot, Proxy]'), /spec\.roles has "Proxy"/],
    [token().replace('[Bot]', 'Bot'), /spec\.roles must be a list of texts/],
    [token('      - {spiffe_id: x, dns: y}\n'), /spec\.spiffe\.allow\[2\]\.dns has no counterpart/],
    [token('      - text\n'), /spec\.spiffe\.allow\[2\] must be an object/],
    [token('    deny: []\n'), /spec\.spiffe\.deny has no counterpart/],
    [token('  suggested_labels: {}\n'), /spec\.suggested_labels has no counterpart/],
    [token().replace('kind: token', 'kind: token\n__proto__: {}'), /__proto__ has no counterpart/],
  ];
  for (const [text, why] of refused) {
    test(why.source, () => assert.throws(() => convert(text), why));
  }

  test('and nothing that is of another kind, or ours, is touched', () => {
    for (const text of [
      'kind: Role',
      'kind: [token]',
      'a: b',
      'kind: token\napiVersion: v9',
      'kind: toString',
    ]) {
      assert.equal(convert(text), undefined);
    }
  });

  test('never with another error, whatever is written', () => {
    const kinds = fc.constantFrom('spiffe_federation', 'token');
    const version = fc.constantFrom('v1', 'v2');
    fc.assert(
      fc.property(kinds, version, fc.jsonValue(), fc.jsonValue(), (kind, v, metadata, spec) => {
        try {
          convertTeleport({ kind, version: v, metadata, spec } as JsonObject, (why) => {
            throw new Refused(why);
          });
        } catch (error) {
          assert(error instanceof Refused);
        }
      }),
    );
  });
});
