import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { StatusPart } from '../../core/plane/command-line.ts';
import { statusText } from './status.ts';

const nowMs = Date.parse('2026-01-02T00:00:00Z');
const site = {
  trustDomain: 'lubeck.example',
  version: '1',
  startedAt: '2026-01-01T23:00:00Z',
  advertiseURL: 'https://lubeck.example:8443',
  listeners: [{ name: 'api', address: 'https://127.0.0.1:7443' }],
  conditions: [{ type: 'Ready', status: 'True', reason: 'r', lastTransitionTime: '', message: '' }],
} as unknown as Parameters<typeof statusText>[0];

const text = (...parts: readonly StatusPart[]): string[] =>
  statusText(site, parts, nowMs)
    .split('\n')
    .map((line) => line.replaceAll(/ {2,}/g, ' | '));

suite('the text of hansa status', () => {
  test('without planes tells what the site says of itself', () => {
    assert.deepEqual(text(), [
      'lubeck.example | ready, up 60m, version 1',
      'advertised | https://lubeck.example:8443',
      'api | https://127.0.0.1:7443',
    ]);
  });

  test('has the rows of each plane above and below the listeners, then tables with their hints', () => {
    assert.deepEqual(
      text(
        {
          fields: {},
          identity: [['fingerprint', '7f']],
          rows: [['federations', '1 stale']],
          table: [['FEDERATION'], ['bruges.example']],
          lines: ['bruges.example: ask its operator.'],
        },
        { fields: {}, rows: [['peers', '2']], table: [['PEER'], ['reval.example']] },
      ).slice(2),
      [
        'fingerprint | 7f',
        'api | https://127.0.0.1:7443',
        'federations | 1 stale',
        'peers | 2',
        '',
        'FEDERATION',
        'bruges.example',
        'bruges.example: ask its operator.',
        '',
        'PEER',
        'reval.example',
      ],
    );
  });

  test('lets no plane send control characters to the terminal', () => {
    const hostile = 'a\u001b[2Jb\nc';
    const lines = text({
      fields: {},
      rows: [['peers', hostile]],
      table: [[hostile]],
      lines: [hostile],
    });
    assert.equal(lines.join('').includes('\u001b'), false);
    assert.equal(lines.length, 7);
  });
});
