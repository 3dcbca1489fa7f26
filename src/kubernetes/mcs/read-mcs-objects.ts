// Makes the objects that reflectors cache out of ServiceExports and ServiceImports: only the fields that the plane
// uses, each of its type. Never throws. Pure.

import {
  compact,
  itemsIn,
  labelIn,
  oneOf,
  portIn,
  protocolNameIn,
  recordIn,
  textIn,
} from '../members/field-values.ts';
import { metaIn } from '../members/read-meta.ts';
import { conditionIn, protocolIn } from '../members/read-objects.ts';
import { exportConditions } from './export-conditions.ts';
import {
  type ImportPort,
  mcsApiVersion,
  type ServiceExport,
  type ServiceImport,
} from './mcs-objects.ts';

const most = { ports: 250, clusters: 1000, conditions: 64 } as const;
const conditions: readonly string[] = exportConditions;

/** Conditions of others do not matter. */
export function readServiceExport(object: ServiceExport): ServiceExport {
  const { metadata, status } = object as unknown as Readonly<Record<string, unknown>>;
  const told = itemsIn(recordIn(status)['conditions'], most.conditions, conditionIn).filter(
    ({ type }) => conditions.includes(type),
  );
  return compact<ServiceExport>({
    apiVersion: mcsApiVersion,
    kind: 'ServiceExport',
    metadata: metaIn(metadata),
    status: told.length === 0 ? undefined : { conditions: told },
  });
}

export function readServiceImport(object: ServiceImport): ServiceImport {
  const { metadata, spec, status } = object as unknown as Readonly<Record<string, unknown>>;
  const from = recordIn(spec);
  const clusters = itemsIn(recordIn(status)['clusters'], most.clusters, (item) => {
    const cluster = textIn(recordIn(item)['cluster']);
    return cluster === undefined ? undefined : { cluster };
  });
  const seconds = recordIn(recordIn(from['sessionAffinityConfig'])['clientIP'])['timeoutSeconds'];
  return compact<ServiceImport>({
    apiVersion: mcsApiVersion,
    kind: 'ServiceImport',
    metadata: metaIn(metadata),
    spec: {
      type: oneOf(from['type'], ['Headless']) ?? 'ClusterSetIP',
      ports: itemsIn(from['ports'], most.ports, importPortIn),
      ips: itemsIn(from['ips'], 2, textIn),
      sessionAffinity: oneOf(from['sessionAffinity'], ['ClientIP']) ?? 'None',
      ...(Number.isSafeInteger(seconds) && {
        sessionAffinityConfig: { clientIP: { timeoutSeconds: seconds as number } },
      }),
    },
    status: clusters.length === 0 ? undefined : { clusters },
  });
}

function importPortIn(value: unknown): ImportPort | undefined {
  const from = recordIn(value);
  const port = portIn(from['port']);
  if (port === undefined) return undefined;
  return compact<ImportPort>({
    name: labelIn(from['name']),
    port,
    protocol: protocolIn(from['protocol']),
    appProtocol: protocolNameIn(from['appProtocol']),
  });
}
