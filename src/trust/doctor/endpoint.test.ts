import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { peerLabel } from '../../api/kinds/spiffe-federation.ts';
import { systemClock } from '../../core/clock/system.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { RequestOptions, SiteClient } from '../../core/plane/site-client.ts';
import type { Examination } from '../federation/examine-endpoint.ts';
import { endpointCheck, judgeExamination } from './endpoint.ts';

const url = 'https://bruges.example:8443/';
const expected = 'spiffe://bruges.example/hansa/site';
const examination: Examination = {
  trustDomain: 'bruges.example',
  source: 'https_spiffe',
  url,
  expected,
  addresses: ['192.0.2.7'],
};
const stranger: Examination = {
  ...examination,
  connected: { address: '192.0.2.7', ms: 2.5 },
  presented: { ids: ['spiffe://evil.example/hansa/site'] },
  failure: { class: 'identity', message: 'it is somebody else' },
};

suite('the way to an endpoint', () => {
  test('shows each step that succeeded, and the one that failed', () => {
    const found = judgeExamination(stranger, false);
    assert.deepEqual(
      found.map(({ check, level }) => [check, level]),
      [
        ['DNS', 'ok'],
        ['TCP', 'ok'],
        ['TLS', 'problem'],
      ],
    );
    assert.match(found[2]?.text ?? '', /presented spiffe:\/\/evil\.example/);
  });

  test('is not taken where the bundle is in the spec', () => {
    const { url: _url, ...fixed } = examination;
    assert.deepEqual(
      judgeExamination(fixed, false).map(({ check, level }) => [check, level]),
      [['bundle', 'ok']],
    );
  });

  test('ends with the name where DNS does not know it', () => {
    const failure = { class: 'dns', message: 'no such name' } as const;
    const found = judgeExamination({ ...examination, addresses: [], failure }, false);
    assert.deepEqual(
      found.map(({ check, level }) => [check, level]),
      [['DNS', 'problem']],
    );
  });
});

suite('the check of a federation', () => {
  const check = (labels: Readonly<Record<string, string>> | undefined) => {
    const asked: RequestOptions[] = [];
    const client = {
      get: async () => ({
        metadata: { name: 'bruges.example', labels, creationTimestamp: '2026-01-01T00:00:00Z' },
        spec: { bundleSource: { httpsSpiffe: { bundleEndpointURL: url } } },
        status: {},
      }),
      request: async (options: RequestOptions) => {
        asked.push(options);
        return { status: 200, body: stranger };
      },
    } as unknown as SiteClient;
    const found = endpointCheck.run({ client, clock: systemClock }, 'bruges.example');
    return { asked, found };
  };
  const remedyOf = async (labels: Readonly<Record<string, string>> | undefined) =>
    (await check(labels).found)?.find(({ level }) => level === 'problem')?.remedy ?? '';

  test('asks the site to examine the endpoint once', async () => {
    const { asked, found } = check(undefined);
    await found;
    assert.deepEqual(asked, [{ method: 'POST', path: '/hansa/v1/trust/examine/bruges.example' }]);
  });

  test('advises a new invitation where a peer owns the federation', async () => {
    assert.match(await remedyOf({ [peerLabel]: 'bruges.example' }), /hansa peer revoke/);
  });

  test('advises to change the spec where no peer owns it', async () => {
    assert.match(await remedyOf(undefined), /set bundleEndpointURL or endpointSpiffeID/);
  });

  test('finds nothing where the site has no such federation', async () => {
    const get = () => Promise.reject(new HansaError('HANSA_NOT_FOUND', 'none'));
    const client = { get } as unknown as SiteClient;
    assert.equal(await endpointCheck.run({ client, clock: systemClock }, 'x.example'), undefined);
  });

  test('fails where the site does not let the caller read it', async () => {
    const get = () => Promise.reject(new HansaError('HANSA_FORBIDDEN', 'no'));
    const client = { get } as unknown as SiteClient;
    await assert.rejects(endpointCheck.run({ client, clock: systemClock }, 'x.example'), {
      code: 'HANSA_FORBIDDEN',
    });
  });
});
