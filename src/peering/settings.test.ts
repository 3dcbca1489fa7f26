import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { ConfigKeys } from '../core/config/config-key.ts';
import type { SiteSettings } from '../core/config/plane-settings.ts';
import { defaultPeeringSettings, peeringSettings } from './settings.ts';

type Values = Parameters<typeof peeringSettings.read>[0];
const site = {} as SiteSettings;

/** As the site reads its configuration: defaults where nothing is given. */
function valuesOf(given: Readonly<Record<string, string>> = {}): Values {
  const keys: ConfigKeys = peeringSettings.keys;
  return Object.fromEntries(
    Object.entries(keys).map(([name, key]) => {
      const text = given[name] ?? key.default;
      return [name, text === undefined ? undefined : key.parse(text, '/')];
    }),
  ) as Values;
}
const settingsOf = (given?: Readonly<Record<string, string>>) =>
  peeringSettings.read(valuesOf(given), site);
const problemsOf = (given: Readonly<Record<string, string>>) =>
  peeringSettings.problems?.(valuesOf(given), site, () => '') ?? [];

suite('the settings of peering', () => {
  test('are the defaults where nothing is given', () => {
    assert.deepEqual(settingsOf(), defaultPeeringSettings);
  });

  test('let silence follow the interval of heartbeats', () => {
    assert.equal(settingsOf({ 'peering.heartbeatSeconds': '100' }).silentAfterMs, 300_000);
    assert.equal(settingsOf({ 'peering.callTimeoutSeconds': '30' }).silentAfterMs, 32_000);
    assert.equal(settingsOf({ 'peering.silentAfterSeconds': '300' }).silentAfterMs, 300_000);
  });

  test('refuse a silence that a slow answer would reach', () => {
    const [problem] = problemsOf({ 'peering.silentAfterSeconds': '5' });
    assert.match(
      problem ?? '',
      /silentAfterSeconds \(5\) must be at least 6: .*callTimeoutSeconds/,
    );
    assert.deepEqual(problemsOf({ 'peering.silentAfterSeconds': '6' }), []);
  });

  test('refuse values out of bounds', () => {
    for (const [name, text] of [
      ['peering.heartbeatSeconds', '1'],
      ['peering.heartbeatSeconds', '601'],
      ['peering.heartbeatSeconds', '2.5'],
      ['peering.silentAfterSeconds', '0'],
      ['peering.callTimeoutSeconds', '-4'],
      ['peering.handshakeTimeoutSeconds', 'ten'],
      ['peering.confirmWithinMinutes', '10081'],
    ] as const) {
      assert.throws(() => valuesOf({ [name]: text }), Error, `${name}: ${text}`);
    }
  });
});
