import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { systemClock } from '../../core/clock/system.ts';
import type { Transport } from '../../core/identity/tls/transport.ts';
import { fetchBundle } from './fetch-bundle.ts';
import { isLocalAddress } from '../../core/identity/tls/local-address.ts';

/** Endpoints by URL: at which address they are, and where they lead; those that lead nowhere have a bundle. */
type Endpoints = Readonly<Record<string, { readonly at: string; readonly to?: string }>>;

async function fetchFrom(first: string, endpoints: Endpoints) {
  const connected: string[] = [];
  const transport: Transport = {
    connect: async ({ url, checkAddress }) => {
      const { at, to } = endpoints[url.href] as Endpoints[string] & object;
      checkAddress?.(at);
      connected.push(at);
      return {
        peerChain: [],
        request: async () => ({
          status: to === undefined ? 200 : 302,
          headers: to === undefined ? {} : { location: to },
          body: Buffer.from('{}'),
        }),
        close: () => undefined,
      };
    },
  };
  const fetched = fetchBundle({
    url: new URL(first),
    profile: { kind: 'https_web', rules: { caBundle: undefined, pinnedKeys: [] } },
    validator: undefined,
    transport,
    clock: systemClock,
    signal: new AbortController().signal,
  });
  const outcome = await fetched.then(
    ({ document }) => document?.toString(),
    (error: Error) => error.message,
  );
  return { outcome, connected };
}

suite('a redirect', () => {
  const world = 'https://bruges.example/';
  test('of an endpoint elsewhere does not lead into this machine, or to what hangs on its wire', async () => {
    for (const at of ['127.0.0.1', '::1', '::ffff:127.0.0.1', '169.254.169.254', 'fe80::1%eth0']) {
      const { outcome, connected } = await fetchFrom(world, {
        [world]: { at: '192.0.2.1', to: 'https://inside.example/' },
        'https://inside.example/': { at },
      });
      assert.match(outcome ?? '', new RegExp(`leads to ${at.replace('%', '.')}`));
      assert.deepEqual(connected, ['192.0.2.1']);
    }
  });

  test('nor after one that leads elsewhere', async () => {
    const { outcome } = await fetchFrom(world, {
      [world]: { at: '192.0.2.1', to: 'https://brandenburg.example/' },
      'https://brandenburg.example/': { at: '192.0.2.2', to: 'https://inside.example/' },
      'https://inside.example/': { at: '127.0.0.1' },
    });
    assert.match(outcome ?? '', /leads to 127\.0\.0\.1/);
  });

  test('of an endpoint of this machine may stay here, and any may lead to a private network', async () => {
    const here = 'https://localhost/';
    const local = await fetchFrom(here, {
      [here]: { at: '127.0.0.1', to: 'https://localhost/there' },
      'https://localhost/there': { at: '::1' },
    });
    assert.equal(local.outcome, '{}');
    const inside = await fetchFrom(world, {
      [world]: { at: '192.0.2.1', to: 'https://inside.example/' },
      'https://inside.example/': { at: '10.0.0.7' },
    });
    assert.equal(inside.outcome, '{}');
  });
});

test('an address is local in every way of writing it', () => {
  for (const address of ['127.8.9.10', '0.0.0.0', '::', '::ffff:169.254.1.1', 'fe80::2%3']) {
    assert.equal(isLocalAddress(address), true, address);
  }
  for (const address of [
    '128.0.0.1',
    '10.1.1.1',
    '2001:db8::1',
    'fd00::1',
    '::ffff:10.0.0.1',
    '',
  ]) {
    assert.equal(isLocalAddress(address), false, address);
  }
});
