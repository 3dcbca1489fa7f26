// gRPC server reflection, as SPIFFE Workload Endpoint section 7 recommends, so that clients can list the
// services of the socket. It reveals only the public files in proto/, so every process may call it. The
// catalog is built at the first request.

import { create, type DescFile, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt';
import {
  type ServerDuplexStream,
  type ServiceDefinition,
  status,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js';
import { file_ext_authz } from '../../../../proto/gen/ext_authz_pb.ts';
import { file_health } from '../../../../proto/gen/health_pb.ts';
import {
  file_reflection,
  type ServerReflectionRequest,
  ServerReflectionRequestSchema,
  ServerReflectionResponseSchema,
} from '../../../../proto/gen/reflection_pb.ts';
import { file_sds } from '../../../../proto/gen/sds_pb.ts';
import { file_workload } from '../../../../proto/gen/workload_pb.ts';
import { excerpt } from '../../../api/values/trust-domain.ts';
import { grpcMethod } from './grpc-method.ts';

type Answer = NonNullable<
  MessageInitShape<typeof ServerReflectionResponseSchema>['messageResponse']
>;

const served: readonly DescFile[] = [
  file_workload,
  file_ext_authz,
  file_sds,
  file_health,
  file_reflection,
];

/** Every file that is needed to understand what is served, by name, and where each symbol is. */
interface Catalog {
  readonly services: readonly string[];
  readonly files: ReadonlyMap<string, DescFile>;
  readonly symbols: ReadonlyMap<string, DescFile>;
}

let made: Catalog | undefined;

function catalog(): Catalog {
  if (made !== undefined) return made;
  const files = new Map<string, DescFile>();
  const symbols = new Map<string, DescFile>();
  const addMessages = (messages: DescFile['messages'], file: DescFile): void => {
    for (const message of messages) {
      symbols.set(message.typeName, file);
      addMessages(message.nestedMessages, file);
    }
  };
  const add = (file: DescFile): void => {
    const { name } = file.proto;
    if (files.has(name)) return;
    files.set(name, file);
    addMessages(file.messages, file);
    for (const { typeName } of file.enums) symbols.set(typeName, file);
    for (const service of file.services) {
      symbols.set(service.typeName, file);
      for (const method of service.methods) symbols.set(`${service.typeName}.${method.name}`, file);
    }
    for (const dependency of file.dependencies) add(dependency);
  };
  for (const file of served) add(file);
  const services = served.flatMap((file) => file.services.map(({ typeName }) => typeName));
  made = { services: services.toSorted(), files, symbols };
  return made;
}

/** Names of everything that is served. */
export function servedServices(): readonly string[] {
  return catalog().services;
}

export function reflect({ messageRequest: asked }: ServerReflectionRequest): Answer {
  const { services, files, symbols } = catalog();
  switch (asked.case) {
    case 'listServices':
      return {
        case: 'listServicesResponse',
        value: { service: services.map((name) => ({ name })) },
      };
    case 'fileByFilename':
      return fileAnswer(files.get(asked.value), asked.value);
    case 'fileContainingSymbol':
      return fileAnswer(symbols.get(asked.value), asked.value);
    case 'allExtensionNumbersOfType':
      // There are no extensions; of a type that is known there are none.
      return symbols.has(asked.value)
        ? { case: 'allExtensionNumbersResponse', value: { baseTypeName: asked.value } }
        : unknown(asked.value);
    case 'fileContainingExtension':
      return unknown(`${asked.value.containingType} ${asked.value.extensionNumber}`);
    case undefined:
      return {
        case: 'errorResponse',
        value: {
          errorCode: status.INVALID_ARGUMENT,
          errorMessage: 'The request is empty.',
        },
      };
  }
}

/** The file, and all that it stands on: some clients do not ask for those. */
function fileAnswer(file: DescFile | undefined, name: string): Answer {
  if (file === undefined) return unknown(name);
  const all = new Set<DescFile>();
  const add = (one: DescFile): void => {
    all.add(one);
    one.dependencies.forEach((dependency) => add(dependency));
  };
  add(file);
  const bytes = [...all].map(({ proto }) => toBinary(FileDescriptorProtoSchema, proto));
  return { case: 'fileDescriptorResponse', value: { fileDescriptorProto: bytes } };
}

function unknown(name: string): Answer {
  return {
    case: 'errorResponse',
    value: { errorCode: status.NOT_FOUND, errorMessage: `There is no ${excerpt(name)} here.` },
  };
}

type Call = ServerDuplexStream<ServerReflectionRequest, Uint8Array>;

/** Under its name, and under the one that older clients know it by; the messages are the same. */
export const reflectionDefinitions: readonly ServiceDefinition[] = ['v1', 'v1alpha'].map(
  (version) => ({
    ServerReflectionInfo: grpcMethod(
      `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`,
      ServerReflectionRequestSchema,
      { requests: true, responses: true },
    ),
  }),
);

export const reflection: UntypedServiceImplementation = {
  ServerReflectionInfo: (call: Call) => {
    call.on('data', (request: ServerReflectionRequest) => {
      const response = create(ServerReflectionResponseSchema, {
        validHost: request.host,
        originalRequest: request,
        messageResponse: reflect(request),
      });
      // If the client does not read responses, the site reads no more requests until it does.
      if (!call.write(toBinary(ServerReflectionResponseSchema, response))) {
        call.pause();
        call.once('drain', () => call.resume());
      }
    });
    call.on('error', () => undefined);
    call.on('end', () => call.end());
  },
};
