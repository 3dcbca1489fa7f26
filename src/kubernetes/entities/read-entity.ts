// Makes the objects that reflectors cache out of ExternalEntities: only the fields that the plane uses, each of its
// type. Never throws. Pure.

import { compact, itemsIn, labelIn, portIn, recordIn, textIn } from '../members/field-values.ts';
import { metaIn, picked } from '../members/read-meta.ts';
import { protocolIn } from '../members/read-objects.ts';
import { copyAnnotation, managedByLabel, originKey } from '../names.ts';
import {
  allEntities,
  copyOfEntity,
  type ExternalEntity,
  externalEntityKind,
  isOwnEntity,
} from './compile-external-entities.ts';

const most = { endpoints: 1000, ports: 250 } as const;
const labels: ReadonlySet<string> = new Set([copyAnnotation, managedByLabel, originKey]);

/** Of one of a user only the name counts, which a site cannot use then. */
export function readEntity(object: ExternalEntity): ExternalEntity {
  const { metadata, spec } = object as unknown as Readonly<Record<string, unknown>>;
  const own = {
    ...metaIn(metadata),
    ...compact({ labels: picked(recordIn(metadata)['labels'], (key) => labels.has(key)) }),
  };
  const from = isOwnEntity({ metadata: own }) ? recordIn(spec) : {};
  const { group, version, kind } = externalEntityKind;
  return {
    apiVersion: `${group}/${version}`,
    kind,
    metadata: own,
    spec: compact<ExternalEntity['spec']>({
      endpoints: itemsIn(from['endpoints'], most.endpoints, endpointIn),
      ports: itemsIn(from['ports'], most.ports, namedPortIn),
    }),
  };
}

function endpointIn(value: unknown) {
  const from = recordIn(value);
  const ip = textIn(from['ip'], 64);
  const name = labelIn(from['name']);
  return ip === undefined ? undefined : { ip, ...(name !== undefined && { name }) };
}

function namedPortIn(value: unknown) {
  const from = recordIn(value);
  const name = labelIn(from['name']);
  const port = portIn(from['port']);
  return name === undefined || port === undefined
    ? undefined
    : { name, port, protocol: protocolIn(from['protocol']) ?? ('TCP' as const) };
}

/** How a reflector follows them: own ones by NAMESPACE/NAME of their copy. */
export const entityCollection = {
  path: allEntities,
  transform: readEntity,
  indexes: {
    copy: ({ metadata }: ExternalEntity): readonly string[] => {
      const name = isOwnEntity({ metadata }) ? copyOfEntity(metadata.name) : undefined;
      return name === undefined ? [] : [`${metadata.namespace ?? ''}/${name}`];
    },
  },
} as const;
