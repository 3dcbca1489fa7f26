import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { compileServerConf } from './compile-server-conf.ts';
import type { SpireServerSpec } from './read-spire-server.ts';
import { federations, namespace, peerDomain, specOf } from './test-spire-servers.ts';

const confOf = (spec: SpireServerSpec): { server: Record<string, unknown> } =>
  JSON.parse(compileServerConf(spec, namespace).text) as { server: Record<string, unknown> };

suite('server.conf', () => {
  test('without federation has no bundle endpoint', () => {
    assert.deepEqual(confOf(specOf()), {
      server: {
        trust_domain: 'a.example',
        bind_address: '0.0.0.0',
        bind_port: '8081',
        socket_path: '/run/spire/private/api.sock',
        data_dir: '/run/spire/data',
        log_level: 'info',
        log_format: 'text',
        ca_ttl: '24h',
        default_x509_svid_ttl: '1h',
        default_jwt_svid_ttl: '5m',
        ca_key_type: 'ec-p256',
      },
      plugins: {
        DataStore: [
          {
            sql: {
              plugin_data: {
                database_type: 'sqlite3',
                connection_string: '/run/spire/data/datastore.sqlite3',
              },
            },
          },
        ],
        KeyManager: [{ disk: { plugin_data: { keys_path: '/run/spire/data/keys.json' } } }],
        NodeAttestor: [
          {
            k8s_psat: {
              plugin_data: {
                clusters: [
                  {
                    a: {
                      service_account_allow_list: ['spire:spire-agent'],
                      audience: ['spire-server'],
                    },
                  },
                ],
              },
            },
          },
        ],
        Notifier: [
          { k8sbundle: { plugin_data: { namespace: 'spire', config_map: 'spire-bundle' } } },
        ],
      },
      health_checks: {
        listener_enabled: true,
        bind_address: '0.0.0.0',
        bind_port: '8080',
        live_path: '/live',
        ready_path: '/ready',
      },
      telemetry: { Prometheus: { host: '0.0.0.0', port: 9402 } },
    });
  });

  const endpoints: Readonly<Record<string, object>> = {
    'https_spiffe by default': {
      address: '0.0.0.0',
      port: 8443,
      refresh_hint: '300s',
      profile: [{ https_spiffe: {} }],
    },
    https_spiffe: {
      address: '::',
      port: 9443,
      refresh_hint: '60s',
      profile: [{ https_spiffe: {} }],
    },
    'https_web by ACME': {
      address: '0.0.0.0',
      port: 8443,
      refresh_hint: '300s',
      profile: [
        {
          https_web: [
            {
              acme: {
                directory_url: 'https://acme.example/directory',
                domain_name: 'federation.a.example',
                email: 'ops@a.example',
                tos_accepted: true,
              },
            },
          ],
        },
      ],
    },
    'https_web by a serving certificate': {
      address: '0.0.0.0',
      port: 8443,
      refresh_hint: '300s',
      profile: [
        {
          https_web: [
            {
              serving_cert_file: {
                cert_file_path: '/run/spire/federation-certs/tls.crt',
                key_file_path: '/run/spire/federation-certs/tls.key',
                file_sync_interval: '30s',
              },
            },
          ],
        },
      ],
    },
  };
  for (const [name, endpoint] of Object.entries(endpoints)) {
    test(`has the bundle endpoint inside the server block, with ${name}`, () => {
      assert.deepEqual(confOf(specOf(federations[name])).server['federation'], {
        bundle_endpoint: [endpoint],
      });
    });
  }

  test('is the same whatever the server federates with, so that it does not restart', () => {
    const alone = compileServerConf(specOf({ bundleEndpoint: {} }), namespace);
    const federated = specOf({ bundleEndpoint: {}, federatesWith: [peerDomain] });
    assert.deepEqual(compileServerConf(federated, namespace), alone);
  });

  test('of a federation that is turned off is that of a server without one', () => {
    const off = compileServerConf(specOf({ enabled: false, bundleEndpoint: {} }), namespace);
    assert.deepEqual(off, compileServerConf(specOf(), namespace));
  });

  test('changes its hash with each setting of the endpoint', () => {
    const hashes = Object.values(federations).map(
      (federation) => compileServerConf(specOf(federation), namespace).hash,
    );
    assert.equal(new Set(hashes).size, hashes.length);
  });

  test('holds any text as one value, so that no text adds a setting', () => {
    const texts = fc.string({ unit: 'binary', minLength: 1, maxLength: 200 });
    const keys = (value: unknown): unknown =>
      Array.isArray(value)
        ? value.map(keys)
        : typeof value === 'object' && value !== null
          ? Object.fromEntries(Object.entries(value).map(([key, part]) => [key, keys(part)]))
          : typeof value;
    const plain = specOf({ bundleEndpoint: {} }, { caSubject: { commonName: 'x' }, datastore: {} });
    fc.assert(
      fc.property(texts, texts, (commonName, connectionString) => {
        const spec = {
          ...plain,
          caSubject: { commonName },
          datastore: { ...plain.datastore, connectionString },
        } as SpireServerSpec;
        const conf = confOf(spec);
        assert.deepEqual(keys(conf), keys(confOf(plain)));
        assert.deepEqual(conf.server['ca_subject'], [{ common_name: commonName }]);
      }),
    );
  });
});
