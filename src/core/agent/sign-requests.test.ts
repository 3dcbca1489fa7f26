import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { HansaError } from '../errors/error.ts';
import { scene } from './test-link.ts';

suite('a signing request', () => {
  const x509 = [{ entry: 'uid', publicKey: Buffer.of(1), proof: Buffer.of(2) }];

  test('is built for its connection and its id, and gets the response with that id', async () => {
    const { clock, site, link, stop } = scene();
    await clock.advance(0);
    const [stream] = site.streams;
    const first = link.sign(({ exporter, request }) => ({
      x509: [{ entry: 'uid', publicKey: exporter, proof: Buffer.from(String(request)) }],
    }));
    const second = link.sign(() => ({ x509 }));
    const ids = stream?.sent.flatMap((one) => (one.case === 'sign' ? [one.value.id] : [])) ?? [];
    const sent = stream?.sent.find((one) => one.case === 'sign');
    const [request] = sent?.case === 'sign' ? sent.value.x509 : [];
    assert.deepEqual(Buffer.from(request?.publicKey ?? []), stream?.exporter);
    assert.equal(Buffer.from(request?.proof ?? []).toString(), String(ids[0]));
    stream?.say({ case: 'signed', value: { id: ids[1] ?? 0n, jwt: [{ token: 'second' }] } });
    stream?.say({ case: 'signed', value: { id: ids[0] ?? 0n, jwt: [{ token: 'first' }] } });
    await clock.advance(0);
    assert.equal((await first).jwt[0]?.token, 'first');
    assert.equal((await second).jwt[0]?.token, 'second');
    await stop();
  });

  test('waits while eight are unanswered', async () => {
    const { clock, site, link, stop } = scene();
    await clock.advance(0);
    const [stream] = site.streams;
    const all = Array.from({ length: 20 }, () => link.sign(() => ({ x509 })));
    const ids = () =>
      stream?.sent.flatMap((one) => (one.case === 'sign' ? [one.value.id] : [])) ?? [];
    assert.equal(ids().length, 8);
    for (let at = 0; at < 20; at++) {
      stream?.say({ case: 'signed', value: { id: ids()[at] ?? 0n } });
      await clock.advance(0);
    }
    assert.equal(ids().length, 20);
    await Promise.all(all);
    await stop();
  });

  test('waits for the first connection', async () => {
    const { clock, site, link, stop } = scene();
    const asked = link.sign(() => ({ x509 }));
    await clock.advance(0);
    const [sent] =
      site.streams[0]?.sent.flatMap((one) => (one.case === 'sign' ? [one.value.id] : [])) ?? [];
    assert.ok(sent !== undefined);
    site.streams[0]?.say({ case: 'signed', value: { id: sent } });
    await asked;
    await stop();
  });

  test('is rejected when the first connection fails, with the reason', async () => {
    const { clock, site, link, stop } = scene();
    site.away = new HansaError('HANSA_UNREACHABLE', 'Cannot connect to lubeck.example:8443.');
    const rejected = assert.rejects(
      link.sign(() => ({ x509 })),
      { code: 'HANSA_UNAVAILABLE', message: /not connected to its site: Cannot connect/ },
    );
    await clock.advance(0);
    await rejected;
    await stop();
  });

  test('is rejected without a connection, with the reason', async () => {
    const { clock, site, link, stop } = scene();
    site.away = new HansaError('HANSA_UNREACHABLE', 'Cannot connect to lubeck.example:8443.');
    await clock.advance(0);
    await assert.rejects(
      link.sign(() => ({ x509 })),
      /not connected to its site: Cannot connect/,
    );
    await stop();
  });

  test('is rejected when the stream breaks before the answer', async () => {
    const { clock, site, link, stop } = scene();
    await clock.advance(0);
    const asked = link.sign(() => ({ x509 }));
    const rejected = assert.rejects(asked, /The connection to the site ended/);
    site.cut();
    await clock.advance(0);
    await rejected;
    await stop();
  });

  test('is rejected after 30 seconds, and a late answer is ignored', async () => {
    const { clock, site, link, stop } = scene();
    await clock.advance(0);
    const asked = link.sign(() => ({ x509 }));
    const rejected = assert.rejects(asked, /did not sign within 30 s/);
    await clock.advance(30_000);
    await rejected;
    site.open?.say({ case: 'signed', value: { id: 1n } });
    await clock.advance(0);
    assert.equal(link.status.connected, true);
    await stop();
  });

  test('that timed out counts as unanswered until the site answers it', async () => {
    const { clock, site, link, stop } = scene();
    await clock.advance(0);
    const [stream] = site.streams;
    const ids = () =>
      stream?.sent.flatMap((one) => (one.case === 'sign' ? [one.value.id] : [])) ?? [];
    const late = Promise.allSettled(Array.from({ length: 8 }, () => link.sign(() => ({ x509 }))));
    await clock.advance(30_000);
    assert.ok((await late).every(({ status }) => status === 'rejected'));
    const asked = link.sign(() => ({ x509 }));
    await clock.advance(0);
    assert.equal(ids().length, 8);
    stream?.say({ case: 'signed', value: { id: ids()[3] ?? 0n } });
    await clock.advance(0);
    assert.equal(ids().length, 9);
    stream?.say({ case: 'signed', value: { id: ids()[8] ?? 0n } });
    assert.equal((await asked).id, ids()[8]);
    await stop();
  });

  test('that timed out does not count on the next stream', async () => {
    const { clock, site, link, stop } = scene();
    await clock.advance(0);
    const late = Promise.allSettled(Array.from({ length: 8 }, () => link.sign(() => ({ x509 }))));
    await clock.advance(30_000);
    await late;
    site.cut();
    await clock.advance(30_000);
    const asked = link.sign(() => ({ x509 }));
    await clock.advance(0);
    const sent = site.open?.sent.find((one) => one.case === 'sign');
    assert.ok(sent?.case === 'sign');
    site.open?.say({ case: 'signed', value: { id: sent.value.id } });
    assert.equal((await asked).id, sent.value.id);
    await stop();
  });

  test('that is under way is finished before a planned reconnect, and later ones use the new stream', async () => {
    const { clock, site, link, stop } = scene();
    await clock.advance(0);
    const [stream] = site.streams;
    const early = link.sign(() => ({ x509 }));
    link.reconnect();
    const late = link.sign(() => ({ x509 }));
    await clock.advance(1_000);
    assert.equal(site.streams.length, 1);
    stream?.say({ case: 'signed', value: { id: 1n } });
    await early;
    await clock.advance(0);
    assert.equal(site.streams.length, 2);
    site.open?.say({ case: 'signed', value: { id: 2n } });
    await clock.advance(0);
    assert.equal((await late).id, 2n);
    await stop();
  });

  test('that the site never answers does not delay a planned reconnect for long', async () => {
    const { clock, site, link, stop } = scene();
    await clock.advance(0);
    const rejected = assert.rejects(
      link.sign(() => ({ x509 })),
      /The connection to the site ended/,
    );
    link.reconnect();
    await clock.advance(5_000);
    await rejected;
    assert.equal(site.streams.length, 2);
    assert.equal(link.status.connected, true);
    await stop();
  });
});
