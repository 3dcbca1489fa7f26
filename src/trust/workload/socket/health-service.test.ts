import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { Client, credentials, type ServiceError, status } from '@grpc/grpc-js';
import {
  HealthCheckRequestSchema,
  HealthCheckResponseSchema,
} from '../../../../proto/gen/health_pb.ts';
import { healthService } from './health-service.ts';
import { startTestSite } from '../test-workload-site.ts';

type Check = (
  call: { readonly request: { readonly service: string } },
  answer: (error: Partial<ServiceError> | null, bytes?: Uint8Array) => void,
) => void;

function ask(service: string, isServing = true): number | Partial<ServiceError> {
  const { Check: check } = healthService(['SpiffeWorkloadAPI'], () => isServing);
  let told: number | Partial<ServiceError> | undefined;
  (check as unknown as Check)({ request: { service } }, (error, bytes) => {
    told = error ?? fromBinary(HealthCheckResponseSchema, bytes ?? new Uint8Array()).status;
  });
  assert.notEqual(told, undefined);
  return told as number | Partial<ServiceError>;
}

suite('the health of the workload socket', () => {
  test('is told of the whole, and of each service', () => {
    assert.equal(ask(''), 1);
    assert.equal(ask('SpiffeWorkloadAPI'), 1);
    assert.equal(ask('SpiffeWorkloadAPI', false), 2);
  });

  test('is not told of what is not served', () => {
    for (const service of ['spiffeworkloadapi', 'x'.repeat(100_000)]) {
      const refused = ask(service) as Partial<ServiceError>;
      assert.equal(refused.code, status.NOT_FOUND);
      assert.ok((refused.details ?? '').length < 300);
    }
  });

  test('is told to every process, without an entry and without the header', async (t) => {
    const { socket, stop } = await startTestSite();
    t.after(stop);
    const client = new Client(`unix:${socket}`, credentials.createInsecure());
    t.after(() => client.close());
    const answer = await new Promise<Uint8Array | undefined>((resolve, reject) => {
      client.makeUnaryRequest(
        '/grpc.health.v1.Health/Check',
        (service: string) =>
          Buffer.from(
            toBinary(HealthCheckRequestSchema, create(HealthCheckRequestSchema, { service })),
          ),
        (bytes: Buffer) => bytes,
        'envoy.service.secret.v3.SecretDiscoveryService',
        (error: ServiceError | null, bytes?: Uint8Array) =>
          error === null ? resolve(bytes) : reject(error),
      );
    });
    assert.deepEqual([...(answer ?? [])], [8, 1]);
  });
});
