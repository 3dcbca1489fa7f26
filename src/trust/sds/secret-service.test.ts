import assert from 'node:assert/strict';
import { connect as connectHttp2, constants } from 'node:http2';
import { connect } from 'node:net';
import { type TestContext, test } from 'node:test';
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import {
  Client,
  type ClientDuplexStream,
  credentials,
  type ServiceError,
  status,
} from '@grpc/grpc-js';
import {
  type DiscoveryResponse,
  DiscoveryRequestSchema,
  DiscoveryResponseSchema,
} from '../../../proto/gen/sds_pb.ts';
import { fetchSvids, putEntry, streamsAre, streamsExceed } from '../workload/test-workload-site.ts';
import { onSiteAndAgent } from '../agent/test-workload-hosts.ts';

const path = '/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets';
type Init = MessageInitShape<typeof DiscoveryRequestSchema>;

class Envoy {
  readonly #client: Client;
  readonly #call: ClientDuplexStream<Uint8Array, DiscoveryResponse>;
  readonly #responses: DiscoveryResponse[] = [];
  #error: ServiceError | undefined;
  #ended = false;
  #wake = (): void => undefined;

  constructor(t: TestContext, socket: string) {
    this.#client = new Client(`unix:${socket}`, credentials.createInsecure());
    this.#call = this.#client.makeBidiStreamRequest(
      path,
      (bytes: Uint8Array) => Buffer.from(bytes),
      (bytes: Buffer) => fromBinary(DiscoveryResponseSchema, bytes),
    );
    this.#call.on('data', (response: DiscoveryResponse) => {
      this.#responses.push(response);
      this.#wake();
    });
    this.#call.on('error', (error: ServiceError) => {
      this.#error = error;
      this.#wake();
    });
    this.#call.on('end', () => {
      this.#ended = true;
      this.#wake();
    });
    t.after(() => {
      this.#call.cancel();
      this.#client.close();
    });
  }

  send(init: Init): void {
    this.#call.write(toBinary(DiscoveryRequestSchema, create(DiscoveryRequestSchema, init)));
  }

  sendBytes(bytes: Uint8Array): void {
    this.#call.write(bytes);
  }

  halfClose(): void {
    this.#call.end();
  }

  get waiting(): number {
    return this.#responses.length;
  }

  async next(): Promise<DiscoveryResponse> {
    for (;;) {
      const response = this.#responses.shift();
      if (response !== undefined) return response;
      if (this.#error !== undefined) throw this.#error;
      await this.#changed();
    }
  }

  async end(): Promise<ServiceError | undefined> {
    while (this.#error === undefined && !this.#ended) await this.#changed();
    return this.#error;
  }

  #changed(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }
}

onSiteAndAgent('the secret discovery service', (host) => {
  test('asks for no header of the Workload API, and for an entry like everybody', async (t) => {
    const { store, socket, denials } = await host.site(t);
    const refused = new Envoy(t, socket);
    refused.send({ resourceNames: ['default'] });
    assert.equal((await refused.end())?.code, status.PERMISSION_DENIED);
    if (host.audits) assert.equal(denials.length, 1);
    await putEntry(store, 'web');
    const envoy = new Envoy(t, socket);
    envoy.send({ resourceNames: ['default'] });
    assert.equal((await envoy.next()).resources.length, 1);
  });

  test('answers a request that makes no sense with what is wrong about it', async (t) => {
    const { store, socket } = await host.site(t);
    await putEntry(store, 'web');
    const wrongType = new Envoy(t, socket);
    wrongType.send({ typeUrl: 'type.googleapis.com/envoy.config.cluster.v3.Cluster' });
    const refusal = await wrongType.end();
    assert.equal(refusal?.code, status.INVALID_ARGUMENT);
    assert.match(refusal.details, /Cluster: this service supports only .*/);
    const garbage = new Envoy(t, socket);
    garbage.sendBytes(Buffer.from('ffffffff', 'hex'));
    assert.notEqual((await garbage.end())?.code, undefined);
  });

  test('ends a stream whose asker wants nothing more', async (t) => {
    const { store, socket, metrics } = await host.site(t);
    await putEntry(store, 'web');
    const envoy = new Envoy(t, socket);
    envoy.send({ resourceNames: ['default'] });
    await envoy.next();
    envoy.halfClose();
    assert.equal(await envoy.end(), undefined);
    await streamsAre(metrics, 0);
  });

  test('closes streams that never ask, and keeps those that asked', async (t) => {
    // Longer than this test takes: it is over where it says so.
    const requestMs = 600_000;
    const { store, socket, metrics, clock } = await host.site(t, { requestMs });
    await putEntry(store, 'web');
    const envoy = new Envoy(t, socket);
    envoy.send({ resourceNames: ['default'] });
    await envoy.next();
    const session = connectHttp2('http://localhost', { createConnection: () => connect(socket) });
    session.on('error', () => undefined);
    t.after(() => session.destroy());
    const ends = Array.from({ length: 100 }, () => {
      const half = session.request({
        [constants.HTTP2_HEADER_METHOD]: 'POST',
        [constants.HTTP2_HEADER_PATH]: path,
        'content-type': 'application/grpc',
        te: 'trailers',
      });
      half.on('error', () => undefined).resume();
      return new Promise((resolve) => half.once('close', resolve));
    });
    await streamsExceed(metrics, 1);
    await clock.elapseUntil(Promise.all(ends), requestMs);
    assert.match(metrics.expose(), /hansa_workload_refusals_total\{reason="late"\} [1-9]/);
    await streamsAre(metrics, 1);
    envoy.send({ resourceNames: ['default', 'ROOTCA'], responseNonce: '1' });
    assert.equal((await envoy.next()).resources.length, 2);
  });

  test('makes a message only when it can go out: a flood of requests, or of changes, piles up nothing', async (t) => {
    const { store, socket } = await host.site(t);
    await putEntry(store, 'web');
    const flood = new Envoy(t, socket);
    for (let at = 0; at < 3000; at++) flood.send({ resourceNames: [`name-${at}`, 'default'] });
    assert.equal((await flood.next()).nonce, '1');
    // Others are served meanwhile.
    const stream = fetchSvids(socket);
    t.after(() => stream.close());
    assert.equal((await stream.next()).svids.length, 1);
    flood.send({ resourceNames: ['ROOTCA'], responseNonce: '1' });
    assert.equal((await flood.next()).nonce, '2');
    assert.equal(flood.waiting, 0, 'what answers no response asks for nothing');
  });
});
