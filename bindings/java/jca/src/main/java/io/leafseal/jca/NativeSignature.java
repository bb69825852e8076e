package io.leafseal.jca;

import java.security.InvalidParameterException;
import java.security.SignatureSpi;

/** A signature without the parameters by name that the JDK has deprecated. */
abstract class NativeSignature extends SignatureSpi {
    @Override
    @Deprecated
    protected void engineSetParameter(String name, Object value) throws InvalidParameterException {
        throw new UnsupportedOperationException("setParameter() not supported");
    }

    @Override
    @Deprecated
    protected Object engineGetParameter(String name) throws InvalidParameterException {
        throw new UnsupportedOperationException("getParameter() not supported");
    }
}
