import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { anonymous } from '../../core/access/identity.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import { callRoute } from '../../core/plane/test-request.ts';
import type { AuthSettings } from '../settings.ts';
import { authInfoRoute } from './auth-info-route.ts';

const settings = { baseDomain: 'kube-fed.svc.cluster.local' } as AuthSettings;

async function infoOf(more: Partial<AuthSettings>, issuer?: string): Promise<unknown> {
  const bundle = { pem: 'first' };
  const context = {
    trustDomain: TrustDomain.parse('lubeck.example'),
    authority: { bundle },
    jwtIssuer: () => issuer,
  } as unknown as PlaneContext;
  const route = authInfoRoute(context, { ...settings, ...more });
  // A rotation after the start.
  bundle.pem = 'second';
  const { body } = await callRoute(route, { caller: anonymous });
  return JSON.parse(String(body));
}

suite('what a site tells commands about itself', () => {
  test('has the current CA, and the default audience', async () => {
    assert.deepEqual(await infoOf({}), {
      trustDomain: 'lubeck.example',
      baseDomain: 'kube-fed.svc.cluster.local',
      audience: 'hansa://lubeck.example',
      ca: 'second',
    });
  });

  test('has the settings of the operator', async () => {
    const info = await infoOf({ audience: 'a', credentialsDir: '/srv' }, 'https://oidc.example');
    assert.deepEqual(info, {
      trustDomain: 'lubeck.example',
      baseDomain: 'kube-fed.svc.cluster.local',
      audience: 'a',
      credentialsDir: '/srv',
      jwtIssuer: 'https://oidc.example',
      ca: 'second',
    });
  });
});
