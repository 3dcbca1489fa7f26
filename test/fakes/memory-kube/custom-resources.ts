// Custom resources of the in-memory API server, from the kinds that the CRDs are rendered from. Unknown
// fields are dropped, defaults are set, and what breaks the schema is refused.

import type { Kind } from '../../../src/api/kind.ts';
import { clusterClaimKind } from '../../../src/api/kinds/cluster-claim.ts';
import { federationKind } from '../../../src/api/kinds/federation.ts';
import { nativeServiceKind } from '../../../src/api/kinds/native-service.ts';
import { policyRecordKind } from '../../../src/api/kinds/policy-record.ts';
import { virtualMachineKind } from '../../../src/api/kinds/virtual-machine.ts';
import { version } from '../../../src/api/object.ts';
import { applyDefaults } from '../../../src/api/schema/default.ts';
import type { FieldError } from '../../../src/api/schema/field-error.ts';
import { jsonEquals } from '../../../src/api/schema/json.ts';
import { prune } from '../../../src/api/schema/prune.ts';
import { validateRest, validateStructure } from '../../../src/api/schema/validate.ts';
import type { ObjectSchema } from '../../../src/api/schema/schema.ts';
import { invalid } from './kube-failure.ts';
import type { Resource } from './resource.ts';
import { defined, type SentObject, type StoredObject } from './stored-object.ts';

export function customResource(kind: Kind): Resource {
  const group = kind.cluster?.group ?? 'hansa.dev';
  const { kind: name, plural, spec, status } = kind;
  return {
    group,
    version,
    plural,
    kind: name,
    isNamespaced: kind.cluster?.scope === 'Namespaced',
    hasStatus: status !== undefined,
    isCustom: true,
    prepare: (object, old) => {
      const errors: FieldError[] = [];
      const prepared = {
        apiVersion: `${group}/${version}`,
        kind: name,
        metadata: object.metadata,
        spec: checked(spec, 'spec', object, old, errors),
        status: status && checked(status, 'status', object, old, errors),
      };
      const objectName = JSON.stringify(object.metadata['name']);
      if (kind.singleton !== undefined && object.metadata['name'] !== kind.singleton) {
        throw invalid(`${name}.${group} ${objectName}`, [
          `metadata.name: must be ${kind.singleton}`,
        ]);
      }
      if (errors.length > 0) {
        throw invalid(
          `${name}.${group} ${objectName}`,
          errors.map((error) => `${error.field}: ${error.message}`),
        );
      }
      return defined(prepared) as SentObject;
    },
    isNewGeneration: (object, old) => !jsonEquals(object['spec'], old['spec']),
  };
}

function checked(
  schema: ObjectSchema,
  field: 'spec' | 'status',
  object: SentObject,
  old: StoredObject | undefined,
  errors: FieldError[],
): unknown {
  const value = object[field];
  if (value === undefined && field === 'status') return undefined;
  const ready = applyDefaults(schema, prune(schema, value ?? {}).value);
  const found = validateStructure(schema, ready, old?.[field]);
  validateRest(schema, ready, old?.[field], found);
  errors.push(...found.map((error) => ({ ...error, field: `${field}.${error.field}` })));
  return ready;
}

/** The kinds of the kubernetes plane. */
export const leagueResources: readonly Resource[] = [
  clusterClaimKind,
  federationKind,
  nativeServiceKind,
  virtualMachineKind,
  policyRecordKind,
].map((kind) => customResource(kind as Kind));
