import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { connect } from 'node:tls';
import { systemClock } from '../../core/clock/system.ts';
import {
  credentialOf,
  type Forged,
  forgeLeaf,
  forgeRoot,
} from '../../core/identity/x509/test-forge.ts';
import type { SiteCredential } from '../../core/identity/tls/site-credentials.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { SourceAddresses } from '../http/source-address.ts';
import { SourceBudget } from '../../core/limits/source-budget.ts';
import { HandshakeBudget, usualRates } from './handshake-budget.ts';
import { SiteListeners } from './site-listeners.ts';

const root = forgeRoot('lubeck.example');
const [old, renewed] = [0, 1].map(() => forgeLeaf(root, 'spiffe://lubeck.example/hansa/site')) as [
  Forged,
  Forged,
];

/** Whoever asks for it first gets the old one; nobody is told of the change. */
function changing() {
  let asked = 0;
  return {
    get current(): SiteCredential {
      return credentialOf(asked++ === 0 ? old : renewed) as SiteCredential;
    },
    onRenewal: () => () => true,
    onChange: () => () => undefined,
    challengeFor: () => undefined,
  };
}

const limits = { maxHeaderBytes: 32_768, maxConnections: 10, requestSeconds: 10 };
const address = { host: '127.0.0.1', port: 0 };

const sources = new SourceAddresses({
  clock: systemClock,
  metrics: new MetricsRegistry(),
  proxies: [],
  denied: () => undefined,
});
const handshakes = new HandshakeBudget({
  clock: systemClock,
  metrics: new MetricsRegistry(),
  budget: new SourceBudget(systemClock, usualRates),
  denied: () => undefined,
});
const listeners = new SiteListeners({
  clock: systemClock,
  limits,
  credentials: changing(),
  sources,
  handshakes,
});
after(() => listeners.close(100));

function presentedBy(port: number): Promise<Buffer | undefined> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: address.host, port, rejectUnauthorized: false }, () => {
      resolve(socket.getPeerX509Certificate()?.raw);
      socket.destroy();
    });
    socket.on('error', reject);
  });
}

test('an SVID that is renewed while its listener opens is presented', async () => {
  const { address: bound } = await listeners.tls(address, () => undefined);
  assert.deepEqual(await presentedBy(bound.port), renewed.der);
});

test('a certificate of the web that is renewed while its listener opens is presented', async () => {
  const { address: bound } = await listeners.web(address, changing(), () => undefined);
  assert.deepEqual(await presentedBy(bound.port), renewed.der);
});
