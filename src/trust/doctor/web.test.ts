import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { systemClock } from '../../core/clock/system.ts';
import type { SiteVisit } from '../../core/plane/doctor.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import type { TrustSettings } from '../settings.ts';
import { checkWeb } from './web.ts';

const visit = (more: Partial<SiteVisit<TrustSettings>>): SiteVisit<TrustSettings> => ({
  client: {} as SiteClient,
  clock: systemClock,
  running: true,
  settings: {} as TrustSettings,
  listeners: async () => new Map(),
  ...more,
});
const files = {
  web: {
    from: 'files',
    certFile: '/nowhere/tls.pem',
    keyFile: '/nowhere/tls.key',
    fileSyncSeconds: 5,
  },
} as TrustSettings;

suite('what doctor says of the web listener', () => {
  test('is nothing for a site that is reached by URL', async () => {
    const listeners = async () => new Map([['web', 'https://127.0.0.1:1']]);
    assert.deepEqual(await checkWeb(visit({ settings: undefined, listeners })), []);
  });

  test('is nothing where the site has no web listener', async () => {
    assert.deepEqual(await checkWeb(visit({})), []);
    assert.deepEqual(await checkWeb(visit({ running: false })), []);
  });

  test('is a problem where the files of a stopped site cannot be used', async () => {
    const [found] = await checkWeb(visit({ running: false, settings: files }));
    assert.equal(found?.level, 'problem');
    assert.match(found?.text ?? '', /\/nowhere\/tls\.(?:pem|key)/);
    assert.match(found?.remedy ?? '', /Put a new certificate/);
  });

  test('is a problem where nothing answers at the address', async () => {
    const listeners = async () => new Map([['web', 'https://127.0.0.1:1']]);
    const [found] = await checkWeb(visit({ settings: files, listeners }));
    assert.equal(found?.level, 'problem');
    assert.match(found?.text ?? '', /presents no certificate/);
  });
});
