import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { peerHint } from './peer-hints.ts';
import { peerCells, peerHeadings, peerLines } from './peer-rows.ts';
import { reportSummary } from './report-summary.ts';

const at = '2026-01-01T00:00:00Z';
const status = {
  state: 'active' as const,
  capabilities: ['catalog', 'grants'],
  extensionSlugs: ['maps'],
  reported: { capabilities: ['grants', 'receipts'], extensionSlugs: ['maps'] },
  clock: { skewMilliseconds: 61_000, uncertaintyMilliseconds: 9, measuredAt: at },
  conditions: [
    {
      type: 'ClockInSync',
      status: 'False' as const,
      reason: 'Ahead',
      message: '',
      lastTransitionTime: at,
    },
  ],
};
const shown = (more: object = reportSummary(status)) => ({
  name: 'bruges.example',
  state: 'active',
  url: 'https://bruges.example:8443',
  offers: [],
  ...more,
});

suite('what a peer reported', () => {
  test('is in peer list -o wide', () => {
    const cells = peerCells(shown(), Date.parse(at), true);
    const headings = peerHeadings(true);
    assert.equal(cells[headings.indexOf('CLOCK')], '61 s ahead (too far)');
    assert.equal(cells[headings.indexOf('CAPABILITIES')], 'lost 1, 1 not agreed');
    const calm = peerCells(shown({ capabilities: ['catalog'] }), Date.parse(at), true);
    assert.equal(calm[headings.indexOf('CLOCK')], '');
    assert.equal(calm[headings.indexOf('CAPABILITIES')], 'as agreed');
  });

  test('is in peer show, with what no longer works', () => {
    const lines = new Map(peerLines(shown(), Date.parse(at)).map(([key, text]) => [key, text]));
    assert.equal(lines.get('clock'), '61 s ahead (too far)');
    assert.equal(lines.get('capabilities'), 'catalog, grants');
    assert.equal(lines.get('extensions'), 'maps');
    assert.match(
      lines.get('reported') ?? '',
      /no longer reports catalog.*hansa peer catalog fails/,
    );
    assert.match(lines.get('reported') ?? '', /now also reports receipts/);
    assert.match(lines.get('what to do') ?? '', /timedatectl.*older version/);
  });

  test('needs no action where the peer only has more', () => {
    const gained = {
      ...status,
      reported: { capabilities: ['catalog', 'grants', 'receipts'], extensionSlugs: ['maps'] },
      conditions: [],
    };
    assert.equal(peerHint(shown(reportSummary(gained))), '');
  });

  test('is nothing for a peer of an earlier version', () => {
    assert.deepEqual(reportSummary({ state: 'active' }), {});
    assert.deepEqual(reportSummary(undefined), {});
  });
});
