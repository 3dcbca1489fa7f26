// The routes that set and delete the stored credential of a Cluster. No route returns one.

import { clusterKind } from '../../api/kinds/cluster.ts';
import { objectOf } from '../../core/json/json-body.ts';
import { requesterOf } from '../../core/plane/requester.ts';
import { type PlaneRoute, route } from '../../core/plane/route.ts';
import {
  deleteCredential,
  setCredential,
  type SetCredentialParts,
} from '../credentials/set-credential.ts';
import { authPaths } from '../paths.ts';

/** A chain of certificates and a key. */
const maxBodyBytes = 256 * 1024;

export function credentialRoutes(parts: SetCredentialParts): readonly PlaneRoute[] {
  return [
    route({
      listener: 'api',
      method: 'PUT',
      path: authPaths.credential,
      allow: 'rights',
      rights: [{ verb: 'update', kind: clusterKind, subresource: 'credential', nameFrom: 'name' }],
      handle: async (request) => {
        const body = await request.json(maxBodyBytes, objectOf);
        const set = await setCredential(parts, request.params.name, body, requesterOf(request));
        return { status: 200, contentType: 'application/json', body: JSON.stringify(set) };
      },
    }),
    route({
      listener: 'api',
      method: 'DELETE',
      path: authPaths.credential,
      allow: 'rights',
      rights: [{ verb: 'delete', kind: clusterKind, subresource: 'credential', nameFrom: 'name' }],
      handle: async (request) => {
        await deleteCredential(parts, request.params.name, requesterOf(request));
        return {
          status: 200,
          contentType: 'application/json',
          body: JSON.stringify({ cluster: request.params.name }),
        };
      },
    }),
  ];
}
