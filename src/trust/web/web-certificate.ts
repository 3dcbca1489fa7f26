// Sets up the certificate of the web listener, from files or from an ACME server. The server owns the
// listener, and the plane adds the routes. This is Web PKI only, without SVIDs.

import type { PlaneContext, WebCertificate } from '../../core/plane/plane.ts';
import type { Controller } from '../../core/reconcile/controller.ts';
import type { WebCertificateSettings } from '../settings.ts';
import { AcmeController } from '../controllers/acme-controller.ts';
import { WebCertificateKeeper } from './certificate-keeper.ts';
import { ServingCertificate } from './serving-certificate.ts';

export interface RunningWebCertificate {
  readonly certificate: WebCertificate;
  readonly controllers: readonly Controller[];
  readonly health: ReadonlyMap<string, () => string | undefined>;
  stop(): void;
}

/**
 * Undefined if there is no web listener; the metrics exist anyway. Rejects with HANSA_CONFIG_INVALID if
 * the configured files cannot be used.
 */
export async function startWebCertificate(
  settings: WebCertificateSettings | undefined,
  context: Pick<
    PlaneContext,
    'clock' | 'random' | 'log' | 'metrics' | 'store' | 'sealer' | 'transport' | 'version'
  >,
): Promise<RunningWebCertificate | undefined> {
  const { clock, metrics } = context;
  const keeper = new WebCertificateKeeper(clock, metrics);
  if (settings === undefined) return undefined;
  const health = new Map([['web-certificate', () => keeper.problem]]);
  if (settings.from === 'acme') {
    const acme = await AcmeController.start(settings, keeper, context);
    return {
      certificate: keeper,
      controllers: [acme.controller],
      health,
      stop: () => acme.stop(),
    };
  }
  const serving = await ServingCertificate.start(settings, keeper, context);
  return { certificate: keeper, controllers: [], health, stop: () => serving.stop() };
}
