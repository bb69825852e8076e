package io.leafseal.jackson;

import com.fasterxml.jackson.core.JsonStreamContext;

/** Where a {@link SealingGenerator} is that keeps calls. */
final class SealingContext extends JsonStreamContext {
    private final JsonStreamContext parent;
    String name;
    private Object value;

    SealingContext(JsonStreamContext parent, int type) {
        super(type, -1);
        this.parent = parent;
        this._nestingDepth = parent.getNestingDepth() + 1;
    }

    /** A context that continues where that of the target is. */
    SealingContext(JsonStreamContext original) {
        super(original);
        parent = original.getParent();
        _nestingDepth = original.getNestingDepth();
        name = original.getCurrentName();
        value = original.getCurrentValue();
    }

    void written() {
        _index++;
    }

    @Override
    public JsonStreamContext getParent() {
        return parent;
    }

    @Override
    public String getCurrentName() {
        return name;
    }

    @Override
    public boolean hasCurrentName() {
        return name != null;
    }

    @Override
    public Object getCurrentValue() {
        return value;
    }

    @Override
    public void setCurrentValue(Object current) {
        value = current;
    }
}
