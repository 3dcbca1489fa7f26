import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { create, createFileRegistry, fromBinary, type MessageInitShape } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt';
import { status } from '@grpc/grpc-js';
import { ServerReflectionRequestSchema } from '../../../../proto/gen/reflection_pb.ts';
import { reflect } from './reflection.ts';

type Question = MessageInitShape<typeof ServerReflectionRequestSchema>['messageRequest'];

const ask = (messageRequest: Question) =>
  reflect(
    create(ServerReflectionRequestSchema, messageRequest === undefined ? {} : { messageRequest }),
  );

const services = [
  'SpiffeWorkloadAPI',
  'envoy.service.auth.v3.Authorization',
  'envoy.service.secret.v3.SecretDiscoveryService',
  'grpc.health.v1.Health',
  'grpc.reflection.v1.ServerReflection',
];

describe('reflection', () => {
  test('lists what is served', () => {
    const answer = ask({ case: 'listServices', value: '' });
    assert.ok(answer.case === 'listServicesResponse');
    assert.deepEqual(
      answer.value?.service?.map(({ name }) => name),
      services,
    );
  });

  test('tells of every service, and of each of its messages, in files that stand by themselves', () => {
    for (const symbol of [...services, 'SpiffeWorkloadAPI.FetchX509SVID', 'X509SVID']) {
      const answer = ask({ case: 'fileContainingSymbol', value: symbol });
      assert.ok(answer.case === 'fileDescriptorResponse', symbol);
      const files = (answer.value?.fileDescriptorProto ?? []).map((bytes) =>
        fromBinary(FileDescriptorProtoSchema, bytes),
      );
      const [first] = files;
      assert.ok(first !== undefined);
      const registry = createFileRegistry(first, (name) =>
        files.find((file) => file.name === name),
      );
      const known = registry.getService(symbol) ?? registry.getMessage(symbol);
      assert.ok(known !== undefined || symbol.endsWith('FetchX509SVID'), symbol);
    }
    const byName = ask({ case: 'fileByFilename', value: 'google/protobuf/any.proto' });
    assert.equal(byName.case, 'fileDescriptorResponse');
  });

  test('says that there is none of what is not served', () => {
    for (const question of [
      { case: 'fileContainingSymbol', value: 'spire.api.agent.Debug' },
      { case: 'fileByFilename', value: '../etc/passwd' },
      { case: 'allExtensionNumbersOfType', value: 'Nothing' },
      {
        case: 'fileContainingExtension',
        value: { containingType: 'X509SVID', extensionNumber: 9 },
      },
    ] as const) {
      const answer = ask(question);
      assert.ok(answer.case === 'errorResponse');
      assert.equal(answer.value?.errorCode, status.NOT_FOUND);
    }
    const nothing = ask(undefined);
    assert.ok(nothing.case === 'errorResponse');
    assert.equal(nothing.value?.errorCode, status.INVALID_ARGUMENT);
  });
});
